"""``evopolicygym.audit``."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from evopolicygym.analysis.conduct.audit_run import Conduct, audit_run, named_detectors
from evopolicygym.analysis.conduct.audited_runs import GRAVEST_FIRST, audited_runs
from evopolicygym.analysis.conduct.finding import ConductFinding, Grade
from evopolicygym.analysis.results import Problem
from evopolicygym.analysis.tables.table import Cell, Table, table_of
from evopolicygym.api.table_set import TableSet
from evopolicygym.core.places import DEFAULT_RUNS
from evopolicygym.records.reader import read_run
from evopolicygym.records.run_names import Places, named_places, runs_meant


class Audit(TableSet):
    """What was found in what agents did: a row for each finding of one run, or for each run of several."""

    def __init__(self, runs: Mapping[Path, tuple[str, Conduct]], problems: Sequence[Problem], *, one: bool) -> None:
        self.runs = {root: conduct for root, (_, conduct) in runs.items()}
        """What was found in each run, by its directory."""
        tables = [findings_table(conduct) for _, conduct in runs.values()] if one else [runs_table(runs)]
        super().__init__(tuple(tables), _document(runs, problems), tuple(problems))

    def __iter__(self) -> Iterator[tuple[Path, ConductFinding]]:
        """Yield all findings, each with its run's directory."""
        return ((root, one) for root, conduct in self.runs.items() for one in conduct.findings)

    def has(self, grade: str) -> bool:
        """Return whether anything of a grade, or of a graver one, was found."""
        return any(one.grade.rank >= Grade(grade).rank for _, one in self)


def audit(runs: Places = "latest", only: Sequence[str] = (), *, runs_directory: str | Path = DEFAULT_RUNS) -> Audit:
    """Look at what agents did: own simulators, searches, installations, the network, answers to cases.

    A finding is evidence for a person to read, never a verdict. Nothing of an agent's is run or imported.

    Args:
        runs: Runs, or directories with runs below.
        only: Names of detectors, such as ``own_simulator`` or ``network``; empty for all.
        runs_directory: Where runs are looked for by id.

    Raises:
        UsageError: A run is not there, or a detector is not known.
        RecordError: The only run's record is damaged.
    """
    detectors = named_detectors(only)
    roots = runs_meant(named_places(runs, runs_directory))
    if len(roots) == 1:
        record = read_run(roots[0])
        alone = {roots[0]: (record.state.opened.agent.entry, audit_run(record, detectors))}
        return Audit(alone, (), one=True)
    found, problems = audited_runs(roots, detectors)
    return Audit(found, problems, one=False)


def findings_table(conduct: Conduct) -> Table:
    """Return a row for each finding of a run, the gravest first."""
    rows = tuple(
        (one.grade.value, one.detector, one.what, str(one.place), one.words, one.times) for one in conduct.findings
    )
    read = f"read: {conduct.commands} commands, {conduct.programs} programs"
    table = table_of("findings", ("grade", "kind", "what", "where", "words", "times"), rows)
    return replace(table, notes=(read, *conduct.notes))


def runs_table(runs: Mapping[Path, tuple[str, Conduct]]) -> Table:
    """Return a row for each run: how many findings there are of each grade, and how much was read."""
    rows: Iterator[tuple[Cell, ...]] = (
        (root.name, entry, *(conduct.counts[grade] for grade in GRAVEST_FIRST), conduct.commands, conduct.programs)
        for root, (entry, conduct) in runs.items()
    )
    columns = ("run", "entry", *(grade.value for grade in GRAVEST_FIRST), "commands", "programs")
    noted = Counter(note for _, conduct in runs.values() for note in conduct.notes)
    notes = tuple(f"{note} ({count} of {len(runs)} runs)" for note, count in noted.items())
    return replace(table_of("findings by run", columns, rows), notes=notes)


def _document(runs: Mapping[Path, tuple[str, Conduct]], problems: Sequence[Problem]) -> dict[str, Any]:
    return {
        "runs": [
            {
                "run": str(root),
                "entry": entry,
                "counts": {grade.value: count for grade, count in conduct.counts.items()},
                "commands": conduct.commands,
                "programs": conduct.programs,
                "findings": [_finding(one) for one in conduct.findings],
                "notes": list(conduct.notes),
            }
            for root, (entry, conduct) in runs.items()
        ],
        "problems": [one.document for one in problems],
    }


def _finding(one: ConductFinding) -> dict[str, Any]:
    place = {name: value for name, value in asdict(one.place).items() if value}
    seen = {"kind": one.detector, "grade": one.grade.value, "what": one.what}
    return {**seen, **place, "words": one.words, "times": one.times}
