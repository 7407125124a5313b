"""The tables of runs, from their records; and ``load_runs``, which gives them to a program.

What the columns mean is described in ``rows.py``.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any

from evopolicygym.core.cases import Split
from evopolicygym.core.errors import RecordError, UsageError
from evopolicygym.core.rollout import Episode
from evopolicygym.core.run import RunState, SubmissionState
from evopolicygym.core.score import Estimate, estimate
from evopolicygym.core.text import printable
from evopolicygym.export.schema.columns import ColumnSchema, ValueKind, columns
from evopolicygym.export.schema.rows import STEPS, EpisodeRow, Row, RunRow, StepRow, SubmissionRow
from evopolicygym.export.schema.steps import json_text, step_rows
from evopolicygym.records.reader import RunRecord, experiment_name, find_runs, read_run
from evopolicygym.records.run_document import summary_of


@dataclass(frozen=True, slots=True)
class RunTables:
    """One run's tables."""

    record: RunRecord
    row: RunRow
    submissions: list[SubmissionRow]
    episodes: list[EpisodeRow]

    def steps(self) -> Iterator[StepRow]:
        """Yield the steps of all episodes, each read when it is asked for."""
        for episode in self.episodes:
            yield from step_rows(self.record.paths, self.record.state, episode)

    def rows(self, table: str) -> Iterable[Row]:
        """Return the rows of a table by its name."""
        if table == STEPS:
            return self.steps()
        tables: dict[str, Iterable[Row]] = {
            "runs": [self.row],
            "submissions": self.submissions,
            "episodes": self.episodes,
        }
        return tables[table]


@dataclass(slots=True)
class Runs:
    """The tables of several runs."""

    runs: list[RunRow] = field(default_factory=list)
    submissions: list[SubmissionRow] = field(default_factory=list)
    episodes: list[EpisodeRow] = field(default_factory=list)
    _each: dict[str, RunTables] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        counts = (f"{len(getattr(self, name))} {name}" for name in ("runs", "submissions", "episodes"))
        return f"<Runs: {', '.join(counts)}>"

    def add(self, run: RunTables) -> None:
        """Take one more run in."""
        self.runs.append(run.row)
        self.submissions += run.submissions
        self.episodes += run.episodes
        self._each[run.row.run] = run

    def steps(self, *runs: str) -> Iterator[StepRow]:
        """Return the steps of the runs with these ids, or of all, each read when it is asked for."""
        unknown = [run for run in runs if run not in self._each]
        if unknown:
            raise UsageError(f"No run {unknown[0]!r} was loaded. Loaded: {', '.join(self._each) or 'none'}.")
        return chain.from_iterable(self._each[run].steps() for run in runs or self._each)


def load_runs(*paths: str | Path) -> Runs:
    """Return the tables of the runs at or below these directories.

    ``runs``, ``submissions`` and ``episodes`` are lists of dataclasses, which ``pandas.DataFrame`` and
    ``polars.DataFrame`` take as they are; ``steps()`` reads while it is gone through.
    """
    loaded = Runs()
    for run in each_run(find(paths)):
        loaded.add(run)
    return loaded


def find(paths: Iterable[str | Path]) -> list[Path]:
    """Return the directories of all runs at or below some directories, each once; refuse where there is none."""
    found: dict[Path, Path] = {}
    for path in map(Path, paths):
        below = {root.resolve(): root for root in find_runs(path)}
        if not below:
            read_run(path)  # says why not
        for resolved, root in below.items():
            found.setdefault(resolved, root)
    if not found:
        raise UsageError("No run was named; expected a run's directory, or one with runs below it.")
    return list(found.values())


def each_run(roots: Iterable[Path]) -> Iterator[RunTables]:
    """Yield the tables of runs, each read when it is asked for; refuse two runs of the same id."""
    seen: dict[str, Path] = {}
    for root in roots:
        run = tables_of(root)
        other = seen.setdefault(run.row.run, root)
        if other is not root:
            raise UsageError(f"{other} and {root} are runs of the same id, {run.row.run!r}; name only one of them.")
        yield run


def tables_of(root: Path) -> RunTables:
    """Return one run's tables; raise ``RecordError`` where its record is broken."""
    try:
        record = read_run(root)
        return RunTables(record, _run(record), _submissions(record), list(_episodes(record)))
    except RecordError as error:
        raise error if str(root) in str(error) else RecordError(f"{root}: {error}") from error


def _run(record: RunRecord) -> RunRow:
    row = summary_of(record).row()
    name = experiment_name(record.paths.root.absolute(), row["experiment_id"])
    row["experiment"] = printable(name) or row["experiment_id"]
    return RunRow(**{column.name: _value(column, row[column.name]) for column in columns(RunRow)})


def _value(column: ColumnSchema, value: Any) -> Any:  # noqa: ANN401 - any column's
    """Return a value of a run's row as a table holds it: null where a column may be and the value is empty."""
    if value is None or (column.optional and value in ("", {})):
        return None
    if column.kind is ValueKind.TIME:
        return _time(value)
    return json_text(dict(value)) if column.kind is ValueKind.JSON else value


def _submissions(record: RunRecord) -> list[SubmissionRow]:
    return [_submission(record, one) for one in record.state.submissions]


def _submission(record: RunRecord, one: SubmissionState) -> SubmissionRow:
    state, published = record.state, one.published
    train = estimate(one.returns) if one.returns else None
    validation = _validation(state, one.charged.checkpoint)
    return SubmissionRow(
        run=state.opened.run_id,
        submission=one.index,
        status=one.status.value,
        checkpoint=one.charged.checkpoint,
        selected=state.selected is not None and state.selected.submit_index == one.index,
        episodes=len(one.episodes),
        played=len(one.returns),
        failed_episodes=one.failed,
        remaining_budget=one.remaining_budget,
        train_mean=train.mean if train else None,
        train_standard_error=train.standard_error if train else None,
        validation_mean=validation.mean if validation else None,
        validation_standard_error=validation.standard_error if validation else None,
        error=published.error.message if published and published.error else None,
        charged_at=_time(one.charged.time),
        published_at=_time(published.time) if published else None,
        seconds=published.wall_time_s if published else None,
    )


def _validation(state: RunState, checkpoint: str) -> Estimate | None:
    rollout = state.rollout(Split.VALIDATION, checkpoint)
    return None if rollout.missing else estimate(rollout.returns)


def _episodes(record: RunRecord) -> Iterator[EpisodeRow]:
    state = record.state
    for one in state.submissions:
        cases = one.charged.env_instances
        yield from _played(state, Split.TRAIN, one.charged.checkpoint, cases, one.episodes, one.index)
    for rollout in state.hidden:
        cases = tuple(range(len(rollout.episodes)))
        yield from _played(state, rollout.split, rollout.checkpoint, cases, rollout.episodes, None)


def _played(
    state: RunState,
    split: Split,
    checkpoint: str,
    cases: Sequence[int],
    episodes: Sequence[Episode | None],
    submission: int | None,
) -> Iterator[EpisodeRow]:
    for position, (case, episode) in enumerate(zip(cases, episodes, strict=True)):
        if episode is None:
            continue
        failure = episode.failure
        yield EpisodeRow(
            run=state.opened.run_id,
            episode=f"{split.value}/{checkpoint if submission is None else submission}/{position}",
            split=split.value,
            submission=submission,
            checkpoint=checkpoint,
            position=position,
            case=case,
            episode_return=episode.episode_return,
            length=episode.length,
            terminated=episode.terminated,
            truncated=episode.truncated,
            success=episode.succeeded,
            failure=failure.reason.value if failure else None,
            failure_step=failure.step if failure else None,
            failure_message=failure.message if failure else None,
            actions_clipped=episode.actions_clipped,
            reward_components=json_text(dict(episode.reward_components)),
            seconds=episode.seconds,
            trajectory_sha256=episode.trajectory_sha256,
        )


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
