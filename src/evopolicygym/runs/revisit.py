"""Playing cases of a finished run again: in the strongest sandbox here, but for replays under the versions of then.

Results don't depend on the isolation level, so the one that the record names has no say: a record from elsewhere could
name none.

What is made of the episodes is described in ``replay.py``, ``post_hoc.py`` and ``film.py``; none of them
changes the score.
"""

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from evopolicygym.core.cases import Split
from evopolicygym.core.errors import RecordError, UsageError
from evopolicygym.core.event import RunOpened
from evopolicygym.core.options import AUTO, LOCAL
from evopolicygym.core.rollout import Episode, Executor, Recording
from evopolicygym.core.run import Stage, SubmissionState
from evopolicygym.judge.rollouts import Dealer
from evopolicygym.records.checkpoints import name_of
from evopolicygym.records.paths import episode_name
from evopolicygym.records.reader import RunRecord, read_run
from evopolicygym.rollout.arithmetic import ARITHMETIC
from evopolicygym.runs import experiment
from evopolicygym.runs.executor import config_for_resume, open_executor, refuse_unknown
from evopolicygym.runs.provenance import check_simulator
from evopolicygym.runs.run import check_fingerprint, check_protocol, dealer, other_versions
from evopolicygym.specs.catalog import import_from


@dataclass(frozen=True, slots=True)
class Revisit:
    """A finished run, ready to be played on."""

    record: RunRecord
    isolation: str
    """The level at which it is played now."""
    _executor: Executor
    _dealer: Dealer
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
            self._dealer.job(
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
class ReplayMeans:
    """How a finished run's cases are played again: with which workers and isolation. Results depend on none of it."""

    workers: int | None = None
    executor: str = LOCAL
    address: str = ""
    """Of the executor's cluster."""
    isolation: str = AUTO
    trusted: bool = False
    """Whether a simulator that is not known here may be run."""


@contextmanager
def revisited(root: Path, means: ReplayMeans, *, any_versions: bool = False) -> Iterator[Revisit]:
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
        with open_executor(config, place / "workers", place / "simulators.log") as executor:
            if any_versions:
                check_protocol(state.opened)
            else:
                check_fingerprint(state.opened, executor.grounds)
            grounds = executor.grounds
            others = other_versions(state.opened, grounds.versions, grounds.simulator_code)
            yield Revisit(
                record,
                executor.grounds.isolation,
                executor,
                dealer(state, owner),
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
