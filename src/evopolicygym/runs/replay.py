"""Plays a finished run's held-out cases again and compares every one."""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from evopolicygym.core.cases import Split
from evopolicygym.core.episode import Episode
from evopolicygym.core.errors import UsageError
from evopolicygym.core.rollout import Recording
from evopolicygym.core.run import RunState
from evopolicygym.records.reader import read_run
from evopolicygym.rollout.executors.local import LocalExecutor
from evopolicygym.runs import experiment
from evopolicygym.runs.run import check_fingerprint, dealer


@dataclass(frozen=True, slots=True)
class Replayed:
    """One held-out case, as recorded and as it played now."""

    position: int
    recorded: Episode
    again: Episode

    @property
    def same(self) -> bool:
        """Whether both are the same, bit for bit."""
        return (self.recorded.trajectory_sha256, self.recorded.episode_return) == (
            self.again.trajectory_sha256,
            self.again.episode_return,
        )


def replay(root: Path, workers: int | None = None) -> Iterator[Replayed]:
    """Yield every held-out case of a run's selected checkpoint, played again; in any order.

    Raises ``UsageError`` where nothing was selected or the secret is neither here nor revealed, ``RecordError`` where
    the versions here are not the run's.
    """
    record = read_run(root.resolve())
    state = record.state
    if state.selected is None:
        raise UsageError(f"{root} has no selected checkpoint to play again; it is {state.stage}.")
    owner = experiment.of_run(root, state.opened)
    rollout = state.rollout(Split.HELD_OUT, state.selected.checkpoint)
    context = state.context(state.first_with(state.selected.checkpoint))
    with (
        tempfile.TemporaryDirectory(prefix="evopolicygym-replay-") as scratch,
        _executor(state, scratch, workers) as ex,
    ):
        check_fingerprint(state.opened, ex.grounds)
        deal = dealer(state, owner)
        jobs = [
            deal.job(Split.HELD_OUT, index, index, None, Recording.OUTPUT) for index in range(len(rollout.episodes))
        ]
        path = record.paths.checkpoint(state.selected.checkpoint)
        for job, episode in ex.play(path, context, jobs, lambda _job, _message: None):
            recorded = rollout.episodes[job.position]
            if recorded is not None:
                yield Replayed(job.position, recorded, episode)


def _executor(state: RunState, scratch: str, workers: int | None) -> LocalExecutor:
    task, place = state.opened.task, Path(scratch)
    return LocalExecutor(
        task.environment, task.limits, state.opened.isolation, place / "workers", place / "simulators.log", workers
    )
