"""Rollouts of one run: has the executor play cases, and records each episode as it ends."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Event

from evopolicygym.core.cases import Split
from evopolicygym.core.errors import EvoPolicyGymError
from evopolicygym.core.event import EpisodePlayed, EpisodeRepeated
from evopolicygym.core.film import Camera
from evopolicygym.core.rollout import EpisodeJob, Executor
from evopolicygym.core.run import SubmissionState
from evopolicygym.core.task import PolicyContext
from evopolicygym.core.text import now
from evopolicygym.judge.dealer import Dealer
from evopolicygym.records.writer import RunWriter

STOPPED_MESSAGE = "The run was stopped; resume it to go on."


class RolloutStopped(EvoPolicyGymError):
    """The run is stopped in the middle of a rollout; what was played is recorded."""


@dataclass(frozen=True, slots=True)
class Rollouts:
    """What it takes to play cases of one run."""

    writer: RunWriter
    executor: Executor
    dealer: Dealer
    stop: Event = field(default_factory=Event)
    """Set to stop the run after the episode that ends next."""
    camera: Camera | None = None
    """What makes the films that an agent asks for; None where there is nothing to film with."""

    def play(
        self,
        split: Split,
        checkpoint: str,
        context: PolicyContext,
        jobs: Sequence[EpisodeJob],
        submission: SubmissionState | None = None,
    ) -> None:
        """Play jobs of one checkpoint and record each episode; raise ``RolloutStopped`` where the run is stopped."""
        for job in jobs:
            if job.directory:
                shutil.rmtree(job.directory, ignore_errors=True)

        def repeated(job: EpisodeJob, message: str) -> None:
            if self.stop.is_set():  # whose workers are stopped: that is no fault of the simulator
                raise RolloutStopped(STOPPED_MESSAGE)
            self.writer.record(EpisodeRepeated(now(), split, job.position, message))

        submit_index = submission.index if submission else None
        path = self.writer.paths.checkpoint(checkpoint)
        for job, episode in self.executor.play(path, context, jobs, repeated):
            played = EpisodePlayed(split, checkpoint, job.position, episode, submit_index)
            self.writer.record(played, flush=False, files=job.directory)
            if self.stop.is_set():
                raise RolloutStopped(STOPPED_MESSAGE)
