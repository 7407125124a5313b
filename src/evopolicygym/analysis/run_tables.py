"""All tables of runs. Edits and steps are read one row at a time."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from evopolicygym.core.errors import MissingPackage, RecordError, UnknownName, UsageError
from evopolicygym.records.checked import CheckedRun, open_usable_runs
from evopolicygym.records.reader import Problem, RunRecord, read_run
from evopolicygym.records.rows import (
    TABLES,
    EditRow,
    EpisodeRow,
    Row,
    RunRow,
    StepRow,
    SubmissionRow,
    TaskRow,
    ValueKind,
    columns,
)
from evopolicygym.records.tables import episode_rows, run_row, step_rows, submission_rows, task_row

if TYPE_CHECKING:
    import pandas as pd

DTYPES = {
    (ValueKind.INTEGER, False): "int64",
    (ValueKind.INTEGER, True): "Int64",
    (ValueKind.NUMBER, False): "float64",
    (ValueKind.NUMBER, True): "float64",
    (ValueKind.BOOLEAN, False): "bool",
    (ValueKind.BOOLEAN, True): "boolean",
    (ValueKind.TIME, False): "datetime64[ms, UTC]",
    (ValueKind.TIME, True): "datetime64[ms, UTC]",
}
"""The pandas types of columns, by their kind and whether they may be null; others are left to pandas."""


@dataclass(frozen=True, slots=True)
class RunTables:
    """The tables of one run."""

    checked: CheckedRun
    record: RunRecord
    row: RunRow
    task: TaskRow
    submissions: list[SubmissionRow]
    episodes: list[EpisodeRow]

    def edits(self) -> Iterator[EditRow]:
        """Yield the edits of all submissions; their files are read lazily."""
        from evopolicygym.analysis.lineage.edit_rows import edit_rows  # imported late: it parses programs

        return edit_rows(self.record)

    def steps(self) -> Iterator[StepRow]:
        """Yield the steps of all episodes; they are read lazily."""
        for episode in self.episodes:
            yield from step_rows(self.record.paths, self.record.state, episode)

    def rows(self, table: str) -> Iterable[Row]:
        """Return the rows of a table."""
        match table:
            case "runs":
                return [self.row]
            case "tasks":
                return [self.task]
            case "edits":
                return self.edits()
            case "steps":
                return self.steps()
        rows: Iterable[Row] = getattr(self, table)
        return rows


@dataclass(slots=True)
class Runs:
    """The tables of several runs."""

    runs: list[RunRow] = field(default_factory=list)
    tasks: list[TaskRow] = field(default_factory=list)
    submissions: list[SubmissionRow] = field(default_factory=list)
    episodes: list[EpisodeRow] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    """Runs and directories that are left out, and why."""
    _by_id: dict[str, RunTables] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        counts = (f"{len(getattr(self, name))} {name}" for name in ("runs", "submissions", "episodes"))
        return f"<Runs: {', '.join(counts)}>"

    def add(self, run: RunTables) -> None:
        """Add a run."""
        self.runs.append(run.row)
        self.tasks.append(run.task)
        self.submissions += run.submissions
        self.episodes += run.episodes
        self._by_id[run.row.run_id] = run

    def edits(self, *runs: str) -> Iterator[EditRow]:
        """Return the edits of the runs with these ids (default: all); their files are read lazily."""
        return chain.from_iterable(run.edits() for run in self._chosen(runs))

    def steps(self, *runs: str) -> Iterator[StepRow]:
        """Return the steps of the runs with these ids (default: all); they are read lazily."""
        return chain.from_iterable(run.steps() for run in self._chosen(runs))

    def to_pandas(self, table: str = "runs") -> "pd.DataFrame":
        """Return a table of all runs as a ``pandas.DataFrame``: ``runs``, ``tasks``, ``submissions`` and others.

        Raises ``UnknownName`` for another table, and ``MissingPackage`` without pandas.
        """
        return data_frame(table, self._by_id.values())

    def _chosen(self, runs: Sequence[str]) -> list[RunTables]:
        unknown = [run for run in runs if run not in self._by_id]
        if unknown:
            raise UsageError(f"Unknown run {unknown[0]!r}. Loaded runs: {', '.join(self._by_id) or 'none'}.")
        return [self._by_id[run] for run in runs or self._by_id]


def load_runs(*paths: str | Path) -> Runs:
    """Return the tables of all runs at or below these directories.

    ``runs``, ``tasks``, ``submissions`` and ``episodes`` are lists of dataclasses, which ``pandas.DataFrame`` and
    ``polars.DataFrame`` accept; ``edits()`` and ``steps()`` read lazily. Runs that are left out are in ``problems``.
    Raises ``UsageError`` or ``RecordError`` if there is no run that can be used.
    """
    opened = open_usable_runs(map(Path, paths))
    loaded = Runs(problems=list(opened.problems))
    for run in each_run(opened.runs):
        loaded.add(run)
    return loaded


def data_frame(table: str, runs: Iterable[RunTables]) -> "pd.DataFrame":
    """Return a table of runs as a ``pandas.DataFrame``.

    Numbers, truth values and times have the same types whatever the rows hold; texts and the rest are left to pandas.

    Raises ``UnknownName`` for an unknown table, and ``MissingPackage`` without pandas.
    """
    if table not in TABLES:
        raise UnknownName("table of a run", table, TABLES)
    try:
        import pandas as pd
    except ImportError as error:
        raise MissingPackage("to_pandas", "pandas") from error
    schema = columns(TABLES[table])
    rows = [dict(row) for run in runs for row in run.rows(table)]
    frame = pd.DataFrame(rows, columns=[column.name for column in schema])
    dtypes = {column.name: DTYPES.get((column.kind, column.optional)) for column in schema}
    return frame.astype({name: dtype for name, dtype in dtypes.items() if dtype})


def each_run(runs: Iterable[CheckedRun]) -> Iterator[RunTables]:
    """Yield the tables of runs, read lazily; raise ``UsageError`` for two runs with the same id."""
    roots_by_id: dict[str, Path] = {}
    for run in runs:
        tables = tables_of(run)
        other = roots_by_id.setdefault(tables.row.run_id, run.root)
        if other is not run.root:
            raise UsageError(
                f"{other} and {run.root} are runs with the same id, {tables.row.run_id!r}. Pass only one of them."
            )
        yield tables


def tables_of(run: CheckedRun) -> RunTables:
    """Return a run's tables; raise ``RecordError`` for an invalid run directory."""
    root = run.root
    try:
        record = read_run(root)
        return RunTables(
            run, record, run_row(run), task_row(record), submission_rows(record), list(episode_rows(record))
        )
    except RecordError as error:
        raise error if str(root) in str(error) else RecordError(f"{root}: {error}") from error
