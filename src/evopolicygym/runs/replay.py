"""Replays of a finished run: its hidden cases for a verdict on the score, and further checkpoints after the score.

They play in the strongest sandbox here: results don't depend on the isolation, so the one that the run directory names
has no say, as one from elsewhere could name none. No replay changes the score. Post-hoc evaluation plays the held-out
cases with the checkpoints that were not selected and keeps the results checkpoint by checkpoint, so that an
interruption costs one of them.
"""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from math import fsum
from pathlib import Path

from evopolicygym.core.cases import Split
from evopolicygym.core.errors import RecordError, UsageError
from evopolicygym.core.event import PostHocPlayed, RunOpened
from evopolicygym.core.options import AUTO, LOCAL
from evopolicygym.core.rollout import Episode, Executor, Failure, Recording
from evopolicygym.core.run import RunState, Stage, SubmissionState
from evopolicygym.core.score import Candidate, estimate, select
from evopolicygym.core.text import counted, now
from evopolicygym.judge.rollouts import EpisodeJobBuilder
from evopolicygym.records.checkpoints import name_of
from evopolicygym.records.paths import episode_name
from evopolicygym.records.post_hoc import PostHoc, post_hoc_sha256, read_post_hoc, write_post_hoc
from evopolicygym.records.reader import RunRecord, read_run
from evopolicygym.records.rollback_guard import create_guard, has_mark
from evopolicygym.records.writer import RunWriter
from evopolicygym.rollout.arithmetic import ARITHMETIC
from evopolicygym.runs import experiment
from evopolicygym.runs.preflight import check_simulator, config_for_resume, open_executor, refuse_unknown
from evopolicygym.runs.run import check_fingerprint, check_protocol, job_builder, other_versions
from evopolicygym.specs.catalog import import_from


@dataclass(frozen=True, slots=True)
class ReplaySession:
    """A finished run, ready to be played on."""

    record: RunRecord
    isolation: str
    """The level at which it is played now."""
    _executor: Executor
    _job_builder: EpisodeJobBuilder
    reasons: tuple[str, ...] = ()
    """Why the same case may play otherwise here, in words: by what was computed then, and is now."""
    other_versions: tuple[str, ...] = ()
    """How versions and the simulator's code here differ from the run's, in words; only where that was allowed."""

    def hidden(self, split: Split, checkpoint: str) -> Iterator[tuple[int, Episode]]:
        """Yield the index of every case of a hidden split, in any order, with what a checkpoint makes of it."""
        state = self.record.state
        return self.play(split, state.first_with(checkpoint), range(state.cases(split)))

    def play(
        self, split: Split, submission: SubmissionState, cases: Iterable[int], files: Path | None = None
    ) -> Iterator[tuple[int, Episode]]:
        """Yield what a submission's checkpoint makes of cases, by their places in its train episodes or in the split.

        Where ``files`` is given, each episode's actions are written into a directory below it.
        """
        recording = Recording.ACTIONS if files else Recording.OUTPUT
        checkpoint, named = submission.charged.checkpoint, submission.charged.env_instances
        jobs = [
            self._job_builder.job(
                split,
                named[case] if split is Split.TRAIN else case,
                case,
                files / episode_name(case) if files else None,
                recording,
            )
            for case in cases
        ]
        context, path = self.record.state.context(submission), intact_checkpoint(self.record, checkpoint)
        for job, episode in self._executor.play(path, context, jobs, lambda _job, _message: None):
            yield job.position, episode


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """How a finished run's cases are played again: with which workers and isolation. Results depend on none of it."""

    workers: int | None = None
    executor: str = LOCAL
    address: str = ""
    """Of the executor's cluster."""
    isolation: str = AUTO
    trusted: bool = False
    """Whether a simulator that is not known here may be run."""


@contextmanager
def open_replay(root: Path, means: ReplayOptions, *, any_versions: bool = False) -> Iterator[ReplaySession]:
    """Open a run's executor once more.

    Raises ``UsageError`` where nothing was selected, the secret is neither here nor revealed, or a simulator would run
    that is not known here, ``RecordError`` where the protocol, or without ``any_versions`` a version, is not the run's.
    """
    record = read_run(root.resolve())
    state = record.state
    if state.stage is not Stage.FINISHED or state.selected is None:
        raise UsageError(f"{root} has no scored checkpoint to play again; it is {state.stage}.")
    owner = experiment.of_run(root, state.opened)
    check_simulator(root, state.opened, trusted=means.trusted)
    import_from(Path.cwd(), state.opened.task.environment)
    config = config_for_resume(state.opened, means.workers, means.executor, means.address, means.isolation)
    refuse_unknown(config)
    with tempfile.TemporaryDirectory(prefix="evopolicygym-revisit-") as scratch:
        place = Path(scratch)
        with open_executor(
            config, place / "workers", place / "simulators.log", owner.key(state.opened.split)
        ) as executor:
            if any_versions:
                check_protocol(state.opened)
            else:
                check_fingerprint(state.opened, executor.grounds)
            grounds = executor.grounds
            others = other_versions(state.opened, grounds.versions, grounds.simulator_code)
            yield ReplaySession(
                record,
                executor.grounds.isolation,
                executor,
                job_builder(state, owner),
                _reasons(state.opened, executor),
                others,
            )


def _reasons(opened: RunOpened, executor: Executor) -> tuple[str, ...]:
    """Return in words how arithmetic was, or may have been, another when the run was played."""
    then, now = opened.findings.get(ARITHMETIC), executor.grounds.findings.get(ARITHMETIC, "not known")
    if then is None:
        return ("it was recorded before arithmetic was the same on every processor",)
    return () if then == now else (f"it was recorded with {then}; here is {now}",)


def intact_checkpoint(record: RunRecord, checkpoint: str) -> Path:
    """Return where a checkpoint lies, whose content is what its name says; raise ``RecordError`` where it isn't."""
    place = record.paths.checkpoint(checkpoint)
    try:
        found = name_of(place, record.paths.root)
    except FileNotFoundError as error:
        raise RecordError(f"{place} can't be played: it is not in the record.") from error
    if found != checkpoint:
        raise RecordError(f"{place} can't be played: its content is not what its name says.")
    return place


class Verdict(StrEnum):
    """What a replay says of a score."""

    SAME = "same"
    """Every trajectory is the recorded one, bit for bit."""
    ROUNDING = "rounding"
    """The record was made by other arithmetic or versions, and no return differs by more than rounding."""
    DIFFERENT = "different"
    """Anything else: the record was changed, or rounding grew, as it does in simulators that are chaotic."""


ROUNDING = 1e-4
"""The largest difference that is called rounding: as a share of the return, as it is for returns below 1. A record that
was changed by less can't be distinguished from one of another processor; its score would be the same."""
MOST_NAMED = 8
"""Cases that are named."""


@dataclass(frozen=True, slots=True)
class ReplayedCase:
    """One hidden case, as recorded and as it played now."""

    position: int
    recorded: Episode
    again: Episode
    isolation: str
    """The level at which it played now."""
    reasons: tuple[str, ...] = ()
    """Why it may differ on another machine, in words: the processor, where arithmetic was not pinned or is other."""
    other_versions: tuple[str, ...] = ()
    """How versions and the simulator's code here differ from the run's, in words: no hindrance where both are the same
    all the same."""
    split: Split = Split.HELD_OUT
    checkpoint: str = ""

    @property
    def difference(self) -> float:
        """By how much the return differs from the recorded one."""
        return self.again.episode_return - self.recorded.episode_return

    @property
    def is_within_rounding(self) -> bool:
        """Whether it ended as recorded, at the same step, and its return differs by no more than rounding."""
        most = ROUNDING * max(1.0, abs(self.recorded.episode_return))
        return _ending(self.recorded) == _ending(self.again) and abs(self.difference) <= most

    @property
    def same(self) -> bool:
        """Whether both are the same, bit for bit."""
        return (self.recorded.trajectory_sha256, self.recorded.episode_return) == (
            self.again.trajectory_sha256,
            self.again.episode_return,
        )


def replay(
    root: Path,
    means: ReplayOptions = ReplayOptions(),
    splits: Sequence[Split] = (Split.HELD_OUT,),
) -> Iterator[ReplayedCase]:
    """Yield every case of the splits, played again: held-out's with the selected checkpoint, validation's with each.

    The cases of a checkpoint come in any order. Raises what ``revisited`` raises.
    """
    with open_replay(root, means, any_versions=True) as run:
        state, how = run.record.state, (run.isolation, run.reasons, run.other_versions)
        todo = [(split, checkpoint) for split in splits for checkpoint in checkpoints_of(state, split)]
        for split, checkpoint in todo:
            recorded = state.rollout(split, checkpoint).episodes
            for position, again in run.hidden(split, checkpoint):
                then = recorded[position]
                if then is not None:
                    yield ReplayedCase(position, then, again, *how, split, checkpoint)


def checkpoints_of(state: RunState, split: Split) -> tuple[str, ...]:
    """Return the checkpoints that played a hidden split."""
    if split is Split.VALIDATION:
        return state.checkpoints
    return (state.selected.checkpoint,) if state.selected else ()


def select_again(state: RunState, played: Sequence[ReplayedCase]) -> int | None:
    """Return the submission that is selected from validation as it played now; None where none can be."""
    returns: dict[str, list[float]] = {}
    for case in played:
        if case.split is Split.VALIDATION:
            returns.setdefault(case.checkpoint, []).append(case.again.episode_return)
    choice = select(
        Candidate(submission.index, estimate(returns[submission.charged.checkpoint]).mean)
        for submission in state.candidates
        if submission.charged.checkpoint in returns
    )
    return choice.submit_index if choice else None


def verdict_of(state: RunState, played: Sequence[ReplayedCase]) -> tuple[Verdict, str]:
    """Return what a replay of both hidden splits says of the score, and why, in words."""
    found = {
        split: compare_replay([case for case in played if case.split is split])
        for split in (Split.VALIDATION, Split.HELD_OUT)
    }
    detail = "; ".join(f"{split.value}: {why}" for split, (_, why) in found.items())
    again, then = select_again(state, played), state.selected.submit_index if state.selected else None
    if again != then:
        return Verdict.DIFFERENT, f"validation selects submission {again}, the record has {then}; {detail}"
    return max((verdict for verdict, _ in found.values()), key=list(Verdict).index), detail


def compare_replay(played: Sequence[ReplayedCase]) -> tuple[Verdict, str]:
    """Return what a replay says of the score, and by how much returns differ, in words."""
    different = [case for case in played if not case.same]
    if not different:
        return Verdict.SAME, f"{counted(len(played), 'case')} the same, bit for bit"
    most = max(abs(case.difference) for case in different)
    mean = abs(fsum(case.difference for case in different)) / len(played)
    said = (
        f"{len(different)} of {len(played)} cases differ, their returns by at most {most:.3g}, the score by {mean:.3g} "
        f"(cases {', '.join(str(case.position) for case in different[:MOST_NAMED])}"
        f"{', …' if len(different) > MOST_NAMED else ''})"
    )
    reasons = played[0].reasons
    if not reasons and not played[0].other_versions:
        return Verdict.DIFFERENT, f"{said}: arithmetic and versions are those of the record, so rounding explains none"
    because = f"; {'; '.join(reasons)}" if reasons else ""
    if all(case.is_within_rounding for case in different):
        return Verdict.ROUNDING, f"{said}: no more than rounding{because}"
    return Verdict.DIFFERENT, f"{said}: more than rounding, unless the simulator makes it grow{because}"


def _ending(episode: Episode) -> tuple[object, ...]:
    failure = episode.failure
    failed = (failure.reason, failure.step) if failure else None
    return episode.length, episode.terminated, episode.truncated, episode.success, failed


def post_hoc_due(root: Path) -> tuple[str, ...]:
    """Return the checkpoints of a run whose held-out returns are not known yet, in the order of submissions."""
    record = read_run(root)
    return _post_hoc_due(record.state, read_post_hoc(record.paths) or {})


@dataclass(frozen=True, slots=True)
class PostHocResult:
    """What was played of one run."""

    checkpoints: int = 0
    isolation: str = ""
    """The level at which it was played; empty where nothing was."""


def play_post_hoc(root: Path, played: Callable[[], object], means: ReplayOptions = ReplayOptions()) -> PostHocResult:
    """Play the post-hoc episodes that a run lacks and return what was played; ``played`` is called after each episode.

    Raises what ``revisited`` raises, ``RecordError`` where another process plays on this run; a run of which nothing is
    due is left as it is.
    """
    if not post_hoc_due(root):
        return PostHocResult()
    opened = read_run(root).state.opened
    guard = create_guard(opened) if has_mark(root) else None
    with open_replay(root, means) as run, RunWriter(root.resolve(), guard=guard) as writer:
        paths, state = run.record.paths, run.record.state
        known = dict(read_post_hoc(paths) or {})
        missing = _post_hoc_due(state, known)
        for checkpoint in missing:
            returns: dict[int, float] = {}
            failures: dict[int, Failure] = {}
            for position, episode in run.hidden(Split.HELD_OUT, checkpoint):
                returns[position] = episode.episode_return
                if episode.failure:
                    failures[position] = episode.failure
                played()
            known[checkpoint] = PostHoc(tuple(returns[position] for position in sorted(returns)), failures)
            # Before the file: who is killed in between plays it again.
            writer.record(PostHocPlayed(now(), checkpoint, post_hoc_sha256(known[checkpoint])))
            write_post_hoc(paths, known)
        return PostHocResult(len(missing), run.isolation)


def _post_hoc_due(state: RunState, known: dict[str, PostHoc]) -> tuple[str, ...]:
    if state.selected is None:
        return ()
    return tuple(name for name in state.checkpoints if name != state.selected.checkpoint and name not in known)
