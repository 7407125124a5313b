"""``evopolicygym.diagnose``."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from evopolicygym.analysis.diagnostic import DIAGNOSTICS, group_of, in_short, over_runs
from evopolicygym.analysis.results import Problem
from evopolicygym.analysis.tables.table import Cell, Table
from evopolicygym.api.table_set import TableSet
from evopolicygym.core.errors import EvoPolicyGymError, RecordError
from evopolicygym.core.places import DEFAULT_RUNS
from evopolicygym.core.printable import printable
from evopolicygym.core.run import Stage
from evopolicygym.records.reader import RunRecord, read_run
from evopolicygym.records.run_names import Places, named_places, runs_meant


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
        """What each diagnostic measured of each run, by the run's directory and the diagnostic's name."""
        self.parts = tuple(parts)
        """Each table, with the summary of one run beside it; None in its place where there are several runs."""
        tables = [one for part in parts for one in part if one is not None]
        super().__init__(tuple(tables), _document(measured, together, problems), tuple(problems))


def diagnose(
    runs: Places = "latest", only: Sequence[str] = (), *, runs_directory: str | Path = DEFAULT_RUNS
) -> Diagnosis:
    """Measure how an agent improved: of one run by submission, of several by agent and kind of task.

    Args:
        runs: Runs, or directories with runs below. Of several, those that are not finished are left out.
        only: Names of diagnostics, such as ``edits`` or ``learning_curve``; empty for all.
        runs_directory: Where runs are looked for by id.

    Raises:
        UsageError: A run is not there, or a diagnostic is not known.
        RecordError: The only run's record is damaged.
    """
    diagnostics = {name: DIAGNOSTICS.load(name) for name in only or DIAGNOSTICS.names()}
    roots, problems = runs_meant(named_places(runs, runs_directory)), list[Problem]()
    groups, measured = [], dict[Path, dict[str, Any]]()
    for record in _records(roots, problems):
        groups.append(group_of(record.state))
        measured[record.paths.root] = {name: diagnostic.measure(record) for name, diagnostic in diagnostics.items()}
    together = [
        over_runs(name, diagnostic, [(group, one[name]) for group, one in zip(groups, measured.values(), strict=True)])
        for name, diagnostic in diagnostics.items()
    ]
    if len(roots) > 1:
        return Diagnosis(measured, [(table, None) for table in together], together, problems)
    alone = [(name, one, measured[roots[0]][name]) for name, one in diagnostics.items()]
    parts = [(one.table(found), in_short(name, one, found)) for name, one, found in alone]
    return Diagnosis(measured, parts, together, problems)


def _records(roots: Sequence[Path], problems: list[Problem]) -> Iterator[RunRecord]:
    """Yield records: of one run whatever there is of it, of several those that are finished and can be read."""
    for root in roots:
        try:
            record = read_run(root)
            if len(roots) > 1 and record.state.stage is not Stage.FINISHED:
                raise RecordError(f"The run is not finished ({record.state.stage.value}).")
        except (EvoPolicyGymError, OSError) as error:
            if len(roots) == 1:
                raise
            problems.append(Problem(root, printable(str(error))))
        else:
            yield record


def _document(
    measured: Mapping[Path, Mapping[str, Any]], together: Sequence[Table], problems: Sequence[Problem]
) -> dict[str, Any]:
    runs = [
        {"run": str(root), **{name: asdict(one) for name, one in found.items()}} for root, found in measured.items()
    ]
    tables = {table.title: _by_heading(table) for table in together}
    reasons = [one.document for one in problems]
    return {"runs": runs, "together": tables, "problems": reasons}


def _by_heading(table: Table) -> list[dict[str, Cell]]:
    headings = [column.heading for column in table.columns]
    return [dict(zip(headings, row, strict=True)) for row in table.rows]
