"""The findings of a report about some runs: the leaderboard, and each diagnostic's measurement of each run."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from evopolicygym.analysis.conduct.audit_run import Conduct, audit_run
from evopolicygym.analysis.conduct.detector import Detector
from evopolicygym.analysis.diagnostic import DIAGNOSTICS, Group
from evopolicygym.analysis.headroom.headroom import Surroundings
from evopolicygym.analysis.published.score_tables import PublishedTable
from evopolicygym.analysis.ranking.aggregates import Aggregates, aggregates
from evopolicygym.analysis.ranking.comparability import TableFilter, distinct_runs
from evopolicygym.analysis.ranking.leaderboard import Leaderboard, leaderboard
from evopolicygym.analysis.ranking.score_table import ScoreTable, score_table, score_tables
from evopolicygym.analysis.results import Results
from evopolicygym.core.errors import EvoPolicyGymError
from evopolicygym.core.task import TaskKind
from evopolicygym.core.text import printable
from evopolicygym.records.reader import Problem, read_run
from evopolicygym.records.rows import RunRow


@dataclass(frozen=True, slots=True)
class ReportRun:
    """One finished run."""

    result: RunRow
    measured: Mapping[str, Any]
    """The measurements by diagnostic; empty if the journal could not be read, or no diagnostic was requested."""

    @property
    def group(self) -> Group:
        """The group of the run, under its label in the leaderboard."""
        return Group(self.result.agent, self.result.kind or TaskKind.UNKNOWN, self.result.task)


@dataclass(frozen=True)
class ReportData:
    """The findings about some runs, possibly empty."""

    table: ScoreTable | None = None
    board: Leaderboard | None = None
    runs: tuple[ReportRun, ...] = ()
    """Finished ones."""
    problems: tuple[Problem, ...] = field(default=())
    """Runs that are left out of everything, or of the diagnostics, and why."""
    conduct: Mapping[Path, tuple[str, Conduct]] = field(default_factory=dict)
    """What an audit found in each run that was audited, with the run's entry; empty without an audit."""
    played: ScoreTable | None = None
    """The table of the runs alone, with all tasks that they share, also those that shipped tables lack."""
    around: Surroundings = field(default_factory=Surroundings)
    """Other tables and figures for the best known scores."""

    @cached_property
    def aggregates(self) -> Aggregates:
        """The aggregates over tasks and runs; without entries if there is no table."""
        if self.table is None:
            return Aggregates((), {})
        result = aggregates(self.table)
        return replace(result, notes=(*self.table.notes, *result.notes))

    @property
    def labels(self) -> tuple[str, ...]:
        """The entries that were played: those of the leaderboard first, in its order."""
        standings = self.board.standings if self.board else ()
        placed = [standing.entry.label for standing in standings if not standing.entry.is_shipped]
        return tuple(dict.fromkeys([*placed, *sorted(run.result.agent for run in self.runs)]))

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks that were played: those of the leaderboard first, in its order."""
        played = {run.result.task for run in self.runs}
        known = [task.name for task in self.board.tasks if task.name in played] if self.board else []
        return tuple(dict.fromkeys([*known, *sorted(played)]))

    def measured(self, diagnostic: str) -> list[tuple[ReportRun, Any]]:
        """Return the measurements of a diagnostic by run, without the runs that could not be measured."""
        return [(run, run.measured[diagnostic]) for run in self.runs if diagnostic in run.measured]

    def by_task_and_entry(self, diagnostic: str) -> Mapping[str, Mapping[str, Sequence[Any]]]:
        """Return the measurements of a diagnostic by task and entry, in the order of both."""
        cells: dict[tuple[str, str], list[Any]] = defaultdict(list)
        for run, measured in self.measured(diagnostic):
            cells[run.result.task, run.result.agent].append(measured)
        tasks = {
            task: {label: cells[task, label] for label in self.labels if (task, label) in cells} for task in self.tasks
        }
        return {task: entries for task, entries in tasks.items() if entries}


def find(
    results: Results,
    shipped: Sequence[PublishedTable] = (),
    choice: TableFilter | None = None,
    diagnostics: Iterable[str] = (),
    follow: Callable[[Sequence[RunRow]], Iterable[RunRow]] = lambda runs: runs,
    detectors: Mapping[str, Detector] | None = None,
) -> ReportData:
    """Return the findings about runs; ``follow`` wraps the iteration over runs, to show progress.

    With ``detectors`` each run is audited.

    Raises ``UsageError`` if there is nothing to show, or where runs are not comparable.
    """
    table = score_table(results.runs, shipped, choice)
    board = leaderboard(table)
    loaded = {name: DIAGNOSTICS.load(name) for name in diagnostics}
    runs, problems = [], list(results.problems)
    conduct: dict[Path, tuple[str, Conduct]] = {}
    distinct, _ = distinct_runs(results.runs)
    for result in follow(distinct):
        measured: dict[str, Any] = {}
        try:
            record = read_run(result.root) if loaded or detectors else None
            if record and detectors:
                conduct[result.root] = result.agent, audit_run(record, detectors)
            measured = {name: diagnostic.measure(record) for name, diagnostic in loaded.items()}
        except (EvoPolicyGymError, OSError) as error:
            problems.append(
                Problem(result.root, f"in the leaderboard, but in no diagnostic and no audit: {printable(str(error))}")
            )
        runs.append(ReportRun(result, measured))
    played = next(iter(score_tables(results.runs, (), choice).values())) if shipped and results.runs else table
    return ReportData(table, board, tuple(runs), tuple(problems), conduct, played)
