"""Replays of a finished run: its hidden cases for a verdict on the score, and post-hoc evaluation of other checkpoints.

Replays use the strongest sandbox available, because results don't depend on it and a run directory from elsewhere could
name none. No replay changes the score. Post-hoc evaluation plays the held-out cases with the checkpoints that were not
selected and saves each checkpoint's results, so that an interruption loses at most one.
"""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import fsum
from pathlib import Path

from evopolicygym.core.cases import Split
from evopolicygym.core.check_result import ReplayVerdict
from evopolicygym.core.errors import RecordError, UsageError
from evopolicygym.core.event import PostHocPlayed, RunOpened
from evopolicygym.core.options import AUTO, LOCAL
from evopolicygym.core.rollout import Episode, Executor, Failure, Recording, Rollout
from evopolicygym.core.run import RunState, Stage, SubmissionState
from evopolicygym.core.score import Candidate, estimate, select
from evopolicygym.core.text import counted, now
from evopolicygym.judge.rollouts import EpisodeJobBuilder
from evopolicygym.records import experiment as experiments
from evopolicygym.records.checkpoints import name_of
from evopolicygym.records.paths import episode_name
from evopolicygym.records.post_hoc import PostHoc, post_hoc_sha256, read_post_hoc, write_post_hoc
from evopolicygym.records.reader import RunRecord, read_run
from evopolicygym.records.release import refuse_release
from evopolicygym.records.rollback_guard import create_guard, has_mark
from evopolicygym.records.writer import RunWriter
from evopolicygym.rollout.arithmetic import ARITHMETIC
from evopolicygym.runs.preflight import (
    check_simulator,
    config_for_resume,
    import_for_record,
    open_executor,
    refuse_unknown,
)
from evopolicygym.runs.run import check_fingerprint, check_protocol, job_builder, other_versions


@dataclass(frozen=True, slots=True)
class ReplaySession:
    """A finished run with an open executor."""

    record: RunRecord
    isolation: str
    """The isolation of the replay."""
    _executor: Executor
    _job_builder: EpisodeJobBuilder
    reasons: tuple[str, ...] = ()
    """Why the same case may play differently here: differences of arithmetic."""
    other_versions: tuple[str, ...] = ()
    """How versions and the simulator's code differ from the run's, if that was allowed."""

    def hidden(self, split: Split, checkpoints: Iterable[str]) -> Iterator[tuple[str, int, Episode]]:
        """Play checkpoints on a hidden split; yield the checkpoint, the case's index and the episode, in any order."""
        state = self.record.state
        rollouts = [
            self._rollout(split, state.first_with(checkpoint), range(state.cases(split))) for checkpoint in checkpoints
        ]
        for rollout, job, episode in self._executor.play(rollouts, lambda *_: None):
            yield rollout.checkpoint.name, job.position, episode

    def play(
        self, split: Split, submission: SubmissionState, cases: Iterable[int], files: Path | None = None
    ) -> Iterator[tuple[int, Episode]]:
        """Play a submission's checkpoint and yield each case's index and episode.

        ``cases`` are indices into its train episodes or the hidden split. With ``files``, each episode's actions are
        recorded in a directory below it.
        """
        rollout = self._rollout(split, submission, cases, files)
        for _, job, episode in self._executor.play([rollout], lambda *_: None):
            yield job.position, episode

    def _rollout(
        self, split: Split, submission: SubmissionState, cases: Iterable[int], files: Path | None = None
    ) -> Rollout:
        recording = Recording.ACTIONS if files else Recording.OUTPUT
        checkpoint, named = submission.charged.checkpoint, submission.charged.env_instances
        jobs = [
            self._job_builder.job(
                split,
                named[case] if split is Split.TRAIN else case,
                case,
                files / episode_name(case) if files else None,
                recording,
                0.0 if split is Split.TRAIN else self.record.state.hidden_limit_s(checkpoint),
            )
            for case in cases
        ]
        return Rollout(intact_checkpoint(self.record, checkpoint), self.record.state.context(submission), jobs)


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """Workers, executor and isolation of a replay; results don't depend on them."""

    workers: int | None = None
    executor: str = LOCAL
    address: str = ""
    """The address of the executor's cluster."""
    isolation: str = AUTO
    trusted: bool = False
    """Whether an unknown simulator may run."""


@contextmanager
def open_replay(root: Path, options: ReplayOptions, *, any_versions: bool = False) -> Iterator[ReplaySession]:
    """Open an executor to replay a run.

    Raises ``UsageError`` if nothing was selected, the secret is neither here nor revealed, or the simulator is unknown
    here, ``RecordError`` if the protocol or, without ``any_versions``, a version differs from the run's.
    """
    refuse_release(root)
    record = read_run(root.resolve())
    state = record.state
    if state.stage is not Stage.FINISHED or state.selected is None:
        raise UsageError(f"The run {root.name} has no scored checkpoint to play again: it is {state.stage}.")
    experiment = experiments.of_run(root, state.opened)
    check_simulator(root, state.opened, trusted=options.trusted)
    import_for_record(root, state.opened, trusted=options.trusted)
    config = config_for_resume(state.opened, options.workers, options.executor, options.address, options.isolation)
    refuse_unknown(config)
    with tempfile.TemporaryDirectory(prefix="evopolicygym-revisit-") as scratch:
        scratch_path = Path(scratch)
        with open_executor(
            config, scratch_path / "workers", scratch_path / "simulators.log", experiment.key(state.opened.split)
        ) as executor:
            if any_versions:
                check_protocol(state.opened)
            else:
                check_fingerprint(state.opened, executor.info)
            info = executor.info
            others = other_versions(state.opened, info.versions, info.simulator_code)
            yield ReplaySession(
                record,
                executor.info.isolation,
                executor,
                job_builder(state, experiment),
                _arithmetic_differences(state.opened, executor),
                others,
            )


def _arithmetic_differences(opened: RunOpened, executor: Executor) -> tuple[str, ...]:
    """Describe how arithmetic differs, or may differ, from the run's."""
    then, now = opened.findings.get(ARITHMETIC), executor.info.findings.get(ARITHMETIC, "not known")
    if then is None:
        return ("it was recorded before arithmetic was the same on every processor",)
    return () if then == now else (f"it was recorded with {then}; here is {now}",)


def intact_checkpoint(record: RunRecord, checkpoint: str) -> Path:
    """Return a checkpoint's path; raise ``RecordError`` if its content doesn't match its name."""
    scratch_path = record.paths.checkpoint(checkpoint)
    try:
        actual = name_of(scratch_path, record.paths.root)
    except FileNotFoundError as error:
        raise RecordError(f"{scratch_path} can't be played: it is not in the record.") from error
    if actual != checkpoint:
        raise RecordError(f"{scratch_path} can't be played: its content doesn't match its name.")
    return scratch_path


ROUNDING = 1e-4
"""The largest difference that counts as rounding: relative for returns above 1, absolute below. A smaller change of a
record can't be distinguished from another processor, and wouldn't change the score."""
MAX_NAMED_CASES = 8
"""The largest number of cases that a message names."""


@dataclass(frozen=True, slots=True)
class ReplayedCase:
    """A hidden case as recorded and as replayed."""

    position: int
    recorded: Episode
    again: Episode
    isolation: str
    """The isolation of the replay."""
    reasons: tuple[str, ...] = ()
    """Why it may differ on another machine: arithmetic that is not pinned or differs."""
    other_versions: tuple[str, ...] = ()
    """How versions and the simulator's code differ from the run's."""
    split: Split = Split.HELD_OUT
    checkpoint: str = ""

    @property
    def difference(self) -> float:
        """The replayed return minus the recorded one."""
        return self.again.episode_return - self.recorded.episode_return

    @property
    def is_within_rounding(self) -> bool:
        """Whether it ended as recorded, at the same step, with a return that differs only by rounding."""
        most = ROUNDING * max(1.0, abs(self.recorded.episode_return))
        return _ending(self.recorded) == _ending(self.again) and abs(self.difference) <= most

    @property
    def same(self) -> bool:
        """Whether both are equal, bit for bit."""
        return (self.recorded.trajectory_sha256, self.recorded.episode_return) == (
            self.again.trajectory_sha256,
            self.again.episode_return,
        )


def replay(
    root: Path,
    options: ReplayOptions = ReplayOptions(),
    splits: Sequence[Split] = (Split.HELD_OUT,),
) -> Iterator[ReplayedCase]:
    """Replay the splits and yield their cases: held-out with the selected checkpoint, validation with every checkpoint.

    The cases of a checkpoint come in any order. Raises the errors of ``open_replay``.
    """
    with open_replay(root, options, any_versions=True) as run:
        state, how = run.record.state, (run.isolation, run.reasons, run.other_versions)
        for split in splits:
            for checkpoint, position, again in run.hidden(split, checkpoints_of(state, split)):
                then = state.rollout(split, checkpoint).episodes[position]
                if then is not None:
                    yield ReplayedCase(position, then, again, *how, split, checkpoint)


def checkpoints_of(state: RunState, split: Split) -> tuple[str, ...]:
    """Return the checkpoints that played a hidden split."""
    if split is Split.VALIDATION:
        return state.checkpoints
    return (state.selected.checkpoint,) if state.selected else ()


def select_again(state: RunState, played: Sequence[ReplayedCase]) -> int | None:
    """Return the submission that the replayed validation selects; None if there is none."""
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


def verdict_of(state: RunState, played: Sequence[ReplayedCase]) -> tuple[ReplayVerdict, str]:
    """Return the verdict of a replay of both hidden splits, and the reason."""
    verdicts = {
        split: compare_replay([case for case in played if case.split is split])
        for split in (Split.VALIDATION, Split.HELD_OUT)
    }
    detail = "; ".join(f"{split.value}: {why}" for split, (_, why) in verdicts.items())
    again, then = select_again(state, played), state.selected.submit_index if state.selected else None
    if again != then:
        return ReplayVerdict.DIFFERENT, f"validation selects submission {again}, the record has {then}; {detail}"
    return max((verdict for verdict, _ in verdicts.values()), key=list(ReplayVerdict).index), detail


def compare_replay(played: Sequence[ReplayedCase]) -> tuple[ReplayVerdict, str]:
    """Return the verdict of a replay, and how much returns differ."""
    different = [case for case in played if not case.same]
    if not different:
        return ReplayVerdict.SAME, f"{counted(len(played), 'case')} the same, bit for bit"
    most = max(abs(case.difference) for case in different)
    mean = abs(fsum(case.difference for case in different)) / len(played)
    summary = (
        f"{len(different)} of {len(played)} cases differ, their returns by at most {most:.3g}, the score by {mean:.3g} "
        f"(cases {', '.join(str(case.position) for case in different[:MAX_NAMED_CASES])}"
        f"{', …' if len(different) > MAX_NAMED_CASES else ''})"
    )
    reasons = played[0].reasons
    if not reasons and not played[0].other_versions:
        return ReplayVerdict.DIFFERENT, f"{summary}: arithmetic and versions are the record's, so it is not rounding"
    because = f"; {'; '.join(reasons)}" if reasons else ""
    if all(case.is_within_rounding for case in different):
        return ReplayVerdict.ROUNDING, f"{summary}: no more than rounding{because}"
    return ReplayVerdict.DIFFERENT, f"{summary}: more than rounding, unless the simulator makes it grow{because}"


def _ending(episode: Episode) -> tuple[object, ...]:
    failure = episode.failure
    failed = (failure.reason, failure.step) if failure else None
    return episode.length, episode.terminated, episode.truncated, episode.success, failed


def missing_post_hoc(root: Path) -> tuple[str, ...]:
    """Return a run's checkpoints without held-out returns, in the order of submissions."""
    refuse_release(root)
    record = read_run(root)
    return _missing_post_hoc(record.state, read_post_hoc(record.paths) or {})


@dataclass(frozen=True, slots=True)
class PostHocResult:
    """The result of a run's post-hoc evaluation."""

    checkpoints: int = 0
    isolation: str = ""
    """The isolation of the replay; empty if nothing was played."""


def play_post_hoc(root: Path, played: Callable[[], object], options: ReplayOptions = ReplayOptions()) -> PostHocResult:
    """Play the missing post-hoc episodes of a run; ``played`` is called after each episode.

    Raises the errors of ``open_replay``, and ``RecordError`` if another process plays the run. A run that lacks none is
    left unchanged.
    """
    if not missing_post_hoc(root):
        return PostHocResult()
    opened = read_run(root).state.opened
    guard = create_guard(opened) if has_mark(root) else None
    with open_replay(root, options) as run, RunWriter(root.resolve(), guard=guard) as writer:
        paths, state = run.record.paths, run.record.state
        known = dict(read_post_hoc(paths) or {})
        missing = _missing_post_hoc(state, known)
        for checkpoint in missing:
            returns: dict[int, float] = {}
            failures: dict[int, Failure] = {}
            for _, position, episode in run.hidden(Split.HELD_OUT, [checkpoint]):
                returns[position] = episode.episode_return
                if episode.failure:
                    failures[position] = episode.failure
                played()
            known[checkpoint] = PostHoc(tuple(returns[position] for position in sorted(returns)), failures)
            # Recorded before the file is written: if killed in between, the checkpoint is played again.
            writer.record(PostHocPlayed(now(), checkpoint, post_hoc_sha256(known[checkpoint])))
            write_post_hoc(paths, known)
        return PostHocResult(len(missing), run.isolation)


def _missing_post_hoc(state: RunState, known: dict[str, PostHoc]) -> tuple[str, ...]:
    if state.selected is None:
        return ()
    return tuple(name for name in state.checkpoints if name != state.selected.checkpoint and name not in known)
