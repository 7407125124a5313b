"""``evopolicygym.diagnose`` and ``audit``: how agents improved, and what they did."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from evopolicygym.analysis.conduct.audit_run import GRAVEST_FIRST, Conduct, audit_run, audit_runs, load_detectors
from evopolicygym.analysis.conduct.detector import AuditFinding, Grade
from evopolicygym.analysis.diagnostic import DIAGNOSTICS, Diagnostic, group_of, summary_table, table_over_runs
from evopolicygym.analysis.measurement_index import MeasurementIndex, RunMeasurements, is_kept, run_key
from evopolicygym.analysis.ranking.comparability import facts_of
from evopolicygym.analysis.results import result_of
from evopolicygym.analysis.tables.table import Cell, Column, Number, Table, table_of
from evopolicygym.api.read.table_set import TableSet
from evopolicygym.core.directories import DEFAULT_RUNS
from evopolicygym.core.errors import EvoPolicyGymError, RecordError
from evopolicygym.core.run import Stage
from evopolicygym.core.text import counted, printable
from evopolicygym.records.checked import CheckedRun, open_usable_runs
from evopolicygym.records.reader import Paths, Problem, RunRecord, find_paths, read_run


class Diagnosis(TableSet):
    """How agents improved: of one run by submission, of several by agent and kind of task."""

    def __init__(
        self,
        measured: Mapping[Path, Mapping[str, Any]],
        parts: Sequence[tuple[Table, Table | None]],
        together: Sequence[Table],
        problems: Sequence[Problem],
    ) -> None:
        self.measured = measured
        """Measurements by run directory and diagnostic's name."""
        self.parts = tuple(parts)
        """Each table with the summary of a single run; None for several runs."""
        self._together = tuple(together)
        super().__init__(problems)

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        """Each diagnostic's table, with its summary for a single run."""
        return tuple(table for part in self.parts for table in part if table is not None)

    @cached_property
    def document(self) -> Mapping[str, Any]:
        """The same as a JSON document."""
        return _diagnosis_document(self.measured, self._together, self.problems)

    @property
    def csv_tables(self) -> list[Table]:
        """All measurements in long format: a row for each measure of each submission, entry or run."""
        rows = [row for table, short in self.parts for each in (table, short) if each for row in _to_long_rows(each)]
        return [Table("diagnosis", _LONG, tuple(rows), tuple(self.notes))]


def diagnose(paths: Paths = "latest", only: Sequence[str] = (), *, runs: str | Path = DEFAULT_RUNS) -> Diagnosis:
    """Measure how an agent improved: of one run by submission, of several by agent and kind of task.

    Args:
        paths: Runs, or directories with runs below. Of several, unfinished ones are left out.
        only: Names of diagnostics, such as ``edits`` or ``learning_curve``; empty for all.
        runs: The directory in which ids are looked up.

    Raises:
        UsageError: A run or a diagnostic is unknown.
        RecordError: The only run's record is damaged.
    """
    diagnostics = {name: DIAGNOSTICS.load(name) for name in only or DIAGNOSTICS.names()}
    opened = open_usable_runs(find_paths(paths, runs))
    problems = list(opened.problems)
    if len(opened.runs) + len(problems) > 1:
        measurements = _measure_runs(opened.runs, diagnostics, problems)
        problems.sort(key=lambda problem: problem.root)
        measured = {root: run.values for root, run in measurements.items()}
        together = [
            table_over_runs(name, diagnostic, [(run.group, run.values[name]) for run in measurements.values()])
            for name, diagnostic in diagnostics.items()
        ]
        return Diagnosis(measured, [(table, None) for table in together], together, problems)
    record = read_run(opened.runs[0].root)
    group = group_of(record.state)
    values = {name: diagnostic.measure(record) for name, diagnostic in diagnostics.items()}
    together = [table_over_runs(name, diagnostic, [(group, values[name])]) for name, diagnostic in diagnostics.items()]
    parts = [
        (diagnostic.table(values[name]), summary_table(name, diagnostic, values[name]))
        for name, diagnostic in diagnostics.items()
    ]
    return Diagnosis({record.paths.root: values}, parts, together, problems)


def _measure_runs(
    runs: Sequence[CheckedRun], diagnostics: Mapping[str, Diagnostic[Any]], problems: list[Problem]
) -> dict[Path, RunMeasurements]:
    """Return the measurements of runs that are finished and readable, each run once; the others become problems.

    A run is the same as another if it has the same seed and the same results.
    """
    measurements, first_with = dict[Path, RunMeasurements](), dict[str, Path]()
    kept = {name for name, diagnostic in diagnostics.items() if is_kept(diagnostic.measure)}
    with MeasurementIndex() as index:
        for run in runs:
            root, record = run.root, None
            key = run_key(root)
            known = index.read(root, key)
            needed = [name for name in diagnostics if known is None or name not in kept or name not in known.values]
            try:
                if needed:
                    record = _read_finished(root)
                if known is None and record:
                    known = RunMeasurements(group_of(record.state), facts_of(result_of(run)))
            except (EvoPolicyGymError, OSError) as error:
                problems.append(Problem(root, printable(str(error))))
                continue
            assert known is not None  # noqa: S101 - for the type checker: needed are all where nothing is known
            first = first_with.setdefault(known.facts, root)
            if first != root:
                problems.append(Problem(root, f"is the same run as {printable(str(first))}, which counts once."))
                continue
            values = {name: diagnostics[name].measure(record) for name in needed if record}
            if not kept.isdisjoint(needed):
                own = {name: value for name, value in values.items() if name in kept}
                index.write(root, key, replace(known, values={**known.values, **own}))
            values = {**known.values, **values}
            measurements[root] = replace(known, values={name: values[name] for name in diagnostics})
    return measurements


def _read_finished(root: Path) -> RunRecord:
    """Return the record of a run; raise ``RecordError`` if it isn't finished or can't be read."""
    record = read_run(root)
    if record.state.stage is not Stage.FINISHED:
        raise RecordError(f"The run is not finished ({record.state.stage.value}).")
    return record


def _diagnosis_document(
    measured: Mapping[Path, Mapping[str, Any]], together: Sequence[Table], problems: Sequence[Problem]
) -> dict[str, Any]:
    runs = [
        {"run": str(root), **{name: asdict(value) for name, value in values.items()}}
        for root, values in measured.items()
    ]
    tables = {table.title: _by_heading(table) for table in together}
    reasons = [problem.document for problem in problems]
    return {"runs": runs, "together": tables, "problems": reasons}


_LONG = (
    *(Column(name, name, is_text=True) for name in ("diagnostic", "entry", "kind")),
    Column("runs", "runs"),
    *(Column(name, name, is_text=True) for name in ("of", "name", "measure")),
    Column("value", "value"),
    Column("text", "text", is_text=True),
)
"""Numbers and texts, such as the kind of an edit, have separate columns."""


def _to_long_rows(table: Table) -> Iterator[tuple[Cell, ...]]:
    """Yield a table's cells in long format: several runs by entry and kind, a single run by row."""
    keys = [column.key for column in table.columns]
    is_over_runs = keys[:3] == ["entry", "kind", "runs"]
    is_short = keys == ["measure", "value"]
    name = table.title.partition(", in short")[0]
    for row in table.rows:
        if is_over_runs:
            of: tuple[Cell, ...] = (name, *row[:3], None, None)
            cells = zip(keys[3:], row[3:], strict=True)
        elif is_short:
            of = (name, None, None, 1, "run", None)
            cells = zip([str(row[0]).replace(" ", "_")], row[1:], strict=True)
        else:
            of = (name, None, None, 1, keys[0], str(row[0]))
            cells = zip(keys[1:], row[1:], strict=True)
        for measure, cell in cells:
            if cell is not None:
                is_text = isinstance(cell, str)
                yield (*of, measure, None if is_text else _as_number(cell), cell if is_text else None)


def _as_number(cell: Cell) -> Cell:
    return Number(cell) if isinstance(cell, int | float) else cell


def _by_heading(table: Table) -> list[dict[str, Cell]]:
    headings = [column.heading for column in table.columns]
    return [dict(zip(headings, row, strict=True)) for row in table.rows]


class Audit(TableSet):
    """What was found in what agents did: a row for each finding of one run, or for each run of several."""

    def __init__(self, runs: Mapping[Path, tuple[str, Conduct]], problems: Sequence[Problem], *, one: bool) -> None:
        super().__init__(problems)
        self._by_entry, self._is_one = runs, one
        self.runs = {root: conduct for root, (_, conduct) in runs.items()}
        """What was found in each run, by its directory."""

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        """The findings of one run, or a row for each of several runs."""
        return tuple(map(findings_table, self.runs.values())) if self._is_one else (runs_table(self._by_entry),)

    @cached_property
    def document(self) -> Mapping[str, Any]:
        """The same as a JSON document."""
        return _audit_document(self._by_entry, self.problems)

    def __iter__(self) -> Iterator[tuple[Path, AuditFinding]]:
        """Yield all findings, each with its run's directory."""
        return ((root, finding) for root, conduct in self.runs.items() for finding in conduct.findings)

    def has(self, grade: str) -> bool:
        """Return whether anything of a grade, or of a graver one, was found."""
        return any(one.grade.rank >= Grade(grade).rank for _, one in self)


def audit(paths: Paths = "latest", only: Sequence[str] = (), *, runs: str | Path = DEFAULT_RUNS) -> Audit:
    """Look at what agents did: own simulators, searches, installations, the network, answers to cases.

    A finding is evidence for a person to read, never a verdict. Nothing of an agent's is run or imported.

    Args:
        paths: Runs, or directories with runs below.
        only: Names of detectors, such as ``own_simulator`` or ``network``; empty for all.
        runs: The directory in which ids are looked up.

    Raises:
        UsageError: A run is not there, or a detector is not known.
        RecordError: The only run's record is damaged.
    """
    detectors = load_detectors(only)
    opened = open_usable_runs(find_paths(paths, runs))
    roots = [run.root for run in opened.runs]
    if len(roots) == 1 and not opened.problems:
        record = read_run(roots[0])
        alone = {roots[0]: (record.state.opened.agent.entry, audit_run(record, detectors))}
        return Audit(alone, (), one=True)
    audits, problems = audit_runs(roots, detectors)
    return Audit(audits, [*opened.problems, *problems], one=False)


def findings_table(conduct: Conduct) -> Table:
    """Return a row for each finding of a run, the gravest first."""
    rows = tuple(
        (finding.grade.value, finding.detector, finding.what, str(finding.location), finding.words, finding.times)
        for finding in conduct.findings
    )
    read = f"read: {counted(conduct.commands, 'command')}, {counted(conduct.programs, 'program')}"
    table = table_of("findings", ("grade", "kind", "what", "where", "words", "times"), rows)
    return replace(table, notes=(read, *conduct.notes))


def runs_table(runs: Mapping[Path, tuple[str, Conduct]]) -> Table:
    """Return a row for each run: how many findings there are of each grade, and how much was read."""
    rows: Iterator[tuple[Cell, ...]] = (
        (
            root.name,
            entry,
            conduct.transcript.value,
            *(conduct.counts[grade] for grade in GRAVEST_FIRST),
            conduct.commands,
            conduct.programs,
        )
        for root, (entry, conduct) in runs.items()
    )
    columns = ("run", "entry", "transcript", *(grade.value for grade in GRAVEST_FIRST), "commands", "programs")
    noted = Counter(note for _, conduct in runs.values() for note in conduct.notes)
    notes = tuple(f"{note} ({count} of {len(runs)} runs)" for note, count in noted.items())
    return replace(table_of("findings by run", columns, rows), notes=notes)


def _audit_document(runs: Mapping[Path, tuple[str, Conduct]], problems: Sequence[Problem]) -> dict[str, Any]:
    return {
        "runs": [
            {
                "run": str(root),
                "entry": entry,
                "counts": {grade.value: count for grade, count in conduct.counts.items()},
                "commands": conduct.commands,
                "programs": conduct.programs,
                "transcript": conduct.transcript.value,
                "findings": [_finding(finding) for finding in conduct.findings],
                "notes": list(conduct.notes),
            }
            for root, (entry, conduct) in runs.items()
        ],
        "problems": [problem.document for problem in problems],
    }


def _finding(one: AuditFinding) -> dict[str, Any]:
    location = {name: value for name, value in asdict(one.location).items() if value}
    summary = {"kind": one.detector, "grade": one.grade.value, "what": one.what}
    return {**summary, **location, "words": one.words, "times": one.times}
