"""Plays a finished run's held-out cases again and compares every one."""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from evopolicygym.core.cases import Split
from evopolicygym.core.episode import Episode
from evopolicygym.core.errors import UsageError
from evopolicygym.core.rollout import Recording
from evopolicygym.records.reader import read_run
from evopolicygym.rollout.executors.base import LOCAL
from evopolicygym.runs import experiment
from evopolicygym.runs.config import RunConfig, opened_executor
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


def replay(
    root: Path, workers: int | None = None, executor_name: str = LOCAL, executor_address: str = ""
) -> Iterator[Replayed]:
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
    config = RunConfig(
        state.opened.task,
        state.opened.agent,
        workers=workers,
        isolation=state.opened.isolation,
        executor=executor_name,
        executor_address=executor_address,
    )
    with (
        tempfile.TemporaryDirectory(prefix="evopolicygym-replay-") as scratch,
        opened_executor(config, Path(scratch, "workers"), Path(scratch, "simulators.log")) as ex,
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
