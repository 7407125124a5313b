"""Run directories of the paper's release (v0.1.0), read as records; what they lack is unknown.

Such a directory has a ``run.json`` of its own schema, a state file and the feedback of each submission, and no event
log, so nothing of it can be checked. Its validation scores are normalised, so validation returns are unknown; the score
is the mean of its held-out returns. A release's environment is known by its name alone.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from evopolicygym.core import regular_file
from evopolicygym.core.agent import AgentConfig
from evopolicygym.core.cases import Split, SplitSource
from evopolicygym.core.decoding import Undecodable, decoder
from evopolicygym.core.errors import EvoPolicyGymError, RecordError, UsageError
from evopolicygym.core.event import (
    CheckpointSelected,
    CloseReason,
    EpisodePlayed,
    Event,
    RunClosed,
    RunFinished,
    RunOpened,
    RunStatus,
    RunStopped,
    StopReason,
    SubmissionCharged,
    SubmissionPublished,
)
from evopolicygym.core.rollout import Episode, Failure, FailureReason, HiddenRollout
from evopolicygym.core.run import RunState, Stage, SubmissionState
from evopolicygym.core.score import estimate
from evopolicygym.core.submission import LoadError, SubmissionStatus
from evopolicygym.core.task import BudgetRule, EnvironmentSpec, Task, TaskKind
from evopolicygym.core.text import printable
from evopolicygym.records.paths import EPISODES, SUMMARY, RunPaths
from evopolicygym.records.trajectories import TRAJECTORY

UNCHECKED = "it is a record of the paper's release (v0.1.0)"
"""Why nothing of such a record can be checked."""
STATE = Path(".evopolicygym", "state.json")
METADATA = frozenset({"_meta.json", "metrics.json"})
"""Files that the release adds to a checkpoint's directory; they are no part of the policy."""
SCHEMA = "0.1"
"""The schema of the release's ``run.json`` and ``summary.json``."""
MAX_BYTES = 16 << 20
"""Bytes of one of its JSON files."""
MAX_TAIL = 64 << 10
"""Bytes at a trajectory's end in which its last step is looked for."""
MAX_EPISODES = 100_000
"""Episodes of a run, and held-out returns."""
MAX_SUBMISSIONS = 10_000
MAX_TEXT = 200
"""Characters of a name, and of a message that is kept."""

Decoded = TypeVar("Decoded")


class _Verdict(StrEnum):
    """How a run of the release ended."""

    COMPLETED = "completed"
    NO_OK_SUBMIT = "no_ok_submit"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class _Problem:
    """Why the release's program failed."""

    message: str = ""


@dataclass(frozen=True, slots=True)
class _Outcome:
    """``outcome`` of ``run.json``; ``val_scores`` and ``final_score`` are normalised and aren't read."""

    status: _Verdict
    best_submit_index: int | None = None
    heldout_returns: tuple[float, ...] | None = None
    error: _Problem | None = None


@dataclass(frozen=True, slots=True)
class _Timing:
    start_time: str
    end_time: str | None = None


@dataclass(frozen=True, slots=True)
class _Document:
    """``run.json``."""

    schema_version: str
    protocol_version: str
    model: str
    env: str
    exp_id: str
    timing: _Timing
    outcome: _Outcome | None = None


@dataclass(frozen=True, slots=True)
class _Budget:
    limit: int
    used: int


@dataclass(frozen=True, slots=True)
class _State:
    """``.evopolicygym/state.json``."""

    budget: _Budget
    state: str = ""


@dataclass(frozen=True, slots=True)
class _Summary:
    """``summary.json`` of a submission."""

    submit_index: int
    status: str
    n_episodes: int
    env_instances: tuple[int, ...]
    remaining_budget: int
    submit_started_at: str
    submit_completed_at: str
    wall_time_seconds: float
    first_global_episode: int | None = None
    returns: tuple[float, ...] | None = None
    episode_lengths: tuple[int, ...] | None = None
    errors: tuple[int, ...] | None = None
    timeouts: tuple[int, ...] | None = None
    reward_components_per_episode: Mapping[str, tuple[float, ...]] | None = None


@dataclass(frozen=True, slots=True)
class _LastStep:
    """The end of a trajectory."""

    terminated: bool
    truncated: bool


_SAME_STATUS = {status.value: status for status in SubmissionStatus if status is not SubmissionStatus.INTERRUPTED}
_STATUS = {**_SAME_STATUS, "denied_import": SubmissionStatus.IMPORT_ERROR}
"""The statuses of the release that have a counterpart."""


def is_release(root: Path) -> bool:
    """Return whether a directory is a run of the paper's release; never raises."""
    with suppress(EvoPolicyGymError, OSError, ValueError):
        paths = RunPaths(root)
        if os.path.lexists(paths.journal):
            return False
        return regular_file.is_there(paths.document, root) and regular_file.is_there(root / STATE, root)
    return False


def refuse_release(root: Path) -> None:
    """Raise ``UsageError`` for a run of the paper's release, which can't be played."""
    if is_release(root):
        raise UsageError(
            f"{root} is a record of the paper's release (v0.1.0): it can be shown, diagnosed, exported and ranked, not "
            f"played."
        )


def read_release(root: Path) -> tuple[tuple[Event, ...], RunState]:
    """Return the events and the state of a run of the paper's release, as far as its files tell them.

    Raises ``RecordError`` that names the file and the invalid field, ``FileNotFoundError``.
    """
    document = _read(root, RunPaths(root).document, _Document)
    state_file = _read(root, root / STATE, _State)
    _check(document.schema_version == SCHEMA, "run.json", "schema_version", SCHEMA, document.schema_version)
    names = {"model": document.model, "env": document.env, "exp_id": document.exp_id}
    for name, text in names.items():
        _check(0 < len(text) <= MAX_TEXT, "run.json", name, f"1 to {MAX_TEXT} characters", text)
    _check(len(document.protocol_version) <= MAX_TEXT, "run.json", "protocol_version", f"at most {MAX_TEXT} characters")
    budget = state_file.budget
    _check(1 <= budget.limit <= MAX_EPISODES, str(STATE), "budget.limit", f"1 to {MAX_EPISODES:,}", budget.limit)
    _check_time("run.json", "timing.start_time", document.timing.start_time)
    opened = _opened(document, budget.limit)
    submissions = tuple(_submissions(root, budget.limit))
    state = RunState(opened, submissions=submissions)
    if state_file.state not in {"", "open"}:
        reason = CloseReason.BUDGET_SPENT if state.remaining == 0 else None
        closed = RunClosed(document.timing.end_time or opened.time, reason) if reason else None
        state = replace(state, stage=Stage.CLOSED, closed=closed)
    if document.timing.end_time is not None:
        _check_time("run.json", "timing.end_time", document.timing.end_time)
    return _with_outcome(state, document)


def _opened(document: _Document, budget: int) -> RunOpened:
    environment = EnvironmentSpec(
        name=printable(document.env), id="", family="", kind=TaskKind.UNKNOWN, max_steps=0, objective="", reward="",
        termination="", observation=(), action=(), idle_action=None,
    )  # fmt: skip
    returns = document.outcome.heldout_returns if document.outcome else None
    task = Task(environment, BudgetRule(budget), 0, len(returns or ()), 0)
    return RunOpened(
        time=document.timing.start_time,
        run_id=printable(document.exp_id),
        protocol_version=f"{printable(document.protocol_version).removeprefix('protocol/')} of the paper's release",
        task=task,
        agent=AgentConfig(printable(document.model)),
        seed=0,
        split=SplitSource.DIRECTORY,
        experiment="",
        commitment="",
        versions={},
        spec_sha256="",
        isolation="",
    )


def _with_outcome(state: RunState, document: _Document) -> tuple[tuple[Event, ...], RunState]:
    """Return the events and the state with a run's outcome, which may be missing."""
    events = [state.opened, *_events_of(state), *([state.closed] if state.closed else [])]
    outcome, ended_at = document.outcome, document.timing.end_time or state.opened.time
    if outcome is None:
        return tuple(events), state
    if outcome.status is _Verdict.ERROR:
        message = printable(outcome.error.message[:MAX_TEXT]) if outcome.error else ""
        return (*events, RunStopped(ended_at, StopReason.ERROR, message)), state
    if outcome.status is _Verdict.NO_OK_SUBMIT:
        _check(not state.candidates, "run.json", "outcome.status", "completed, as a submission is ok", outcome.status)
        finished = RunFinished(ended_at, RunStatus.NO_OK_SUBMIT)
        return (*events, finished), replace(state, stage=Stage.FINISHED, finished=finished)
    best, returns = outcome.best_submit_index, outcome.heldout_returns or ()
    _check(0 < len(returns) <= MAX_EPISODES, "run.json", "outcome.heldout_returns", f"1 to {MAX_EPISODES:,} numbers")
    known = [submission.index for submission in state.candidates]
    if best is None or best not in known:
        raise _invalid("run.json", "outcome.best_submit_index", "the index of a submission that is ok", best)
    checkpoint = state.submissions[best].charged.checkpoint
    episodes = tuple(Episode(value, 0, terminated=False, truncated=False, trajectory_sha256="") for value in returns)
    score = estimate(returns)
    selected = CheckpointSelected(ended_at, best, checkpoint, None)
    finished = RunFinished(ended_at, RunStatus.SCORED, score.mean, score.standard_error)
    hidden = (HiddenRollout(Split.HELD_OUT, checkpoint, episodes),)
    played = [EpisodePlayed(Split.HELD_OUT, checkpoint, position, episode) for position, episode in enumerate(episodes)]
    state = replace(state, stage=Stage.FINISHED, hidden=hidden, selected=selected, finished=finished)
    return (*events, selected, *played, finished), state


def _events_of(state: RunState) -> Iterator[Event]:
    """Yield the events of the train submissions."""
    for submission in state.submissions:
        charged = submission.charged
        yield charged
        for position, episode in enumerate(submission.episodes):
            if episode:
                yield EpisodePlayed(Split.TRAIN, charged.checkpoint, position, episode, charged.submit_index)
        if submission.published:
            yield submission.published


def _submissions(root: Path, budget: int) -> Iterator[SubmissionState]:
    """Yield the submissions that have a summary."""
    spent = 0
    for index in range(_count_submissions(root, budget)):
        submission = _submission(root, index, budget, spent)
        spent = submission.first_global_episode + len(submission.episodes)
        yield submission


def _name(prefix: str, number: int, budget: int) -> str:
    """Return the name of a directory, whose numbers have as many digits as the budget."""
    return f"{prefix}_{number:0{max(3, len(str(budget)))}d}"


def _count_submissions(root: Path, budget: int) -> int:
    """Return how many submissions have a summary; raise ``RecordError`` if one before another has none."""
    feedback = RunPaths(root).feedback
    try:
        regular_file.check_directory(feedback, root)
    except FileNotFoundError:
        return 0
    indices = []
    with os.scandir(feedback) as entries:
        for entry in entries:
            prefix, _, number = entry.name.partition("_")
            if prefix != "submit" or not (
                number.isascii() and number.isdigit() and len(number) <= len(str(MAX_EPISODES))
            ):
                continue
            if _name(prefix, int(number), budget) == entry.name and regular_file.is_there(
                Path(entry.path, SUMMARY), root
            ):
                indices.append(int(number))
            _check(len(indices) <= MAX_SUBMISSIONS, "workspace/feedback", "submissions", f"at most {MAX_SUBMISSIONS:,}")
    missing = sorted(set(range(len(indices))).difference(indices))
    if missing:
        raise RecordError(f"workspace/feedback/{_name('submit', missing[0], budget)} has no {SUMMARY}.")
    return len(indices)


def _submission(root: Path, index: int, budget: int, spent: int) -> SubmissionState:
    name = _name("submit", index, budget)
    directory = RunPaths(root).feedback / name
    summary = _read(root, directory / SUMMARY, _Summary)
    _check_summary(summary, f"{name}/{SUMMARY}", index, budget, spent)
    first = spent if summary.first_global_episode is None else summary.first_global_episode
    cases = summary.env_instances if summary.n_episodes else ()
    episodes = [
        _episode(root, directory, summary, local, first + local, budget) for local in range(len(summary.returns or ()))
    ]
    status = _STATUS.get(summary.status, SubmissionStatus.OTHER)
    error = None if status is SubmissionStatus.OK else LoadError(status, f"{printable(summary.status)}, see errors.txt")
    return SubmissionState(
        charged=SubmissionCharged(summary.submit_started_at, index, name, cases),
        first_global_episode=first,
        remaining_budget=summary.remaining_budget,
        episodes=(*episodes, *[None] * (len(cases) - len(episodes))),
        published=SubmissionPublished(summary.submit_completed_at, index, status, "", summary.wall_time_seconds, error),
    )


def _check_summary(summary: _Summary, file: str, index: int, budget: int, spent: int) -> None:
    """Raise ``RecordError`` for a summary that contradicts itself or the run."""
    count, returns = summary.n_episodes, summary.returns or ()
    _check(summary.submit_index == index, file, "submit_index", str(index), summary.submit_index)
    _check(len(summary.status) <= MAX_TEXT, file, "status", f"at most {MAX_TEXT} characters")
    _check(0 <= count <= budget - spent, file, "n_episodes", f"0 to {budget - spent}", count)
    _check(count in {0, len(summary.env_instances)}, file, "n_episodes", f"{len(summary.env_instances)}", count)
    _check(all(0 <= case < 1 << 63 for case in summary.env_instances), file, "env_instances", "indices from 0")
    _check(
        0 <= summary.remaining_budget <= budget, file, "remaining_budget", f"0 to {budget}", summary.remaining_budget
    )
    _check(summary.wall_time_seconds >= 0, file, "wall_time_seconds", "at least 0", summary.wall_time_seconds)
    whole = len(returns) == count > 0 if summary.status == SubmissionStatus.OK else len(returns) <= count
    _check(whole, file, "returns", f"{count} numbers", len(returns))
    first = summary.first_global_episode
    _check(first is None or first == spent, file, "first_global_episode", str(spent), first)
    lengths = summary.episode_lengths
    fits = lengths is None or (len(lengths) == len(returns) and all(0 <= length < 1 << 53 for length in lengths))
    _check(fits, file, "episode_lengths", f"{len(returns)} numbers of steps")
    for name, values in (summary.reward_components_per_episode or {}).items():
        what = f"reward_components_per_episode.{printable(name[:MAX_TEXT])}"
        _check(len(values) == len(returns), file, what, f"{len(returns)} numbers", len(values))
    for name in ("submit_started_at", "submit_completed_at"):
        _check_time(file, name, getattr(summary, name))


def _episode(root: Path, directory: Path, summary: _Summary, local: int, number: int, budget: int) -> Episode:
    assert summary.returns is not None  # noqa: S101 - for the type checker: it is one of its returns
    length = summary.episode_lengths[local] if summary.episode_lengths else 0
    last = _last_step(root, directory / EPISODES / _name("ep", number, budget) / TRAJECTORY)
    reason = FailureReason.TIMEOUT if local in (summary.timeouts or ()) else FailureReason.ERROR
    failed = local in {*(summary.timeouts or ()), *(summary.errors or ())}
    components = (summary.reward_components_per_episode or {}).items()
    return Episode(
        episode_return=summary.returns[local],
        length=length,
        terminated=last is not None and last.terminated,
        truncated=last is not None and last.truncated,
        trajectory_sha256="",
        failure=Failure(reason, "see the episode's error.txt", max(0, length - 1)) if failed else None,
        reward_components={printable(name): values[local] for name, values in components},
    )


def _last_step(root: Path, trajectory: Path) -> _LastStep | None:
    """Return how an episode ended; None if its steps are missing or don't tell."""
    try:
        with regular_file.reader(trajectory, root) as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - MAX_TAIL))
            lines = file.read(MAX_TAIL).splitlines()
    except FileNotFoundError:
        return None
    with suppress(Undecodable):
        return decoder(_LastStep, allow_unknown=True).json(lines[-1], strict=True) if lines else None
    return None


def _read(root: Path, file: Path, kind: type[Decoded]) -> Decoded:
    """Return a decoded JSON file; raise ``RecordError`` with the invalid field."""
    name = file.relative_to(root)
    try:
        text = regular_file.read(file, MAX_BYTES, root)
        return decoder(kind, allow_unknown=True, allow_inf_nan=False).json(text, strict=True)
    except Undecodable as error:
        problem = error.problems[0]
        where = f"{printable(problem.where[:MAX_TEXT])}: " if problem.path else ""
        raise RecordError(f"{name} can't be read: {where}{printable(problem.message)}.") from error
    except OSError as error:
        raise RecordError(f"{name} can't be read: {error.strerror}.") from error


def _check(condition: bool, file: str, name: str, expected: str, value: object = None) -> None:  # noqa: FBT001 - a test
    if not condition:
        raise _invalid(file, name, expected, value)


def _invalid(file: str, name: str, expected: str, value: object = None) -> RecordError:
    got = "" if value is None else f", got {printable(str(value)[:60])!r}"
    return RecordError(f"{file} can't be read: {name}: expected {expected}{got}.")


def _check_time(file: str, name: str, text: str) -> None:
    """Raise ``RecordError`` for a time that can't be compared with others."""
    with suppress(ValueError):
        if datetime.fromisoformat(text).tzinfo is not None:
            return
    raise _invalid(file, name, "a time with its offset such as 2026-01-31T12:00:00.000Z", text)
