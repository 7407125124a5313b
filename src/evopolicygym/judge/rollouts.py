"""Playing the cases of one run: episodes of submissions, free trials, and validation and scoring at the end.

``EpisodeJobBuilder`` alone maps a case's index to its seed. Seeds go from here to the executor and nowhere else.
"""

import shutil
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from threading import Event
from typing import Any

from evopolicygym.core import cases
from evopolicygym.core.cases import CaseSet, Split
from evopolicygym.core.errors import EvoPolicyGymError, RecordError, RefusalStatus, RequestRefused
from evopolicygym.core.event import (
    CheckpointSelected,
    EpisodePlayed,
    EpisodeRepeated,
    RunFinished,
    RunStatus,
    SubmissionCharged,
)
from evopolicygym.core.film import Camera
from evopolicygym.core.interface import InterfaceDraw
from evopolicygym.core.rollout import EpisodeJob, Executor, Recording, Rollout, Trial
from evopolicygym.core.run import RunState, Stage, SubmissionState
from evopolicygym.core.task import PolicyContext
from evopolicygym.core.text import now
from evopolicygym.records.writer import RunWriter


@dataclass(frozen=True, slots=True)
class EpisodeJobBuilder:
    """Builds the jobs that play cases of one run. Stays on the trusted side."""

    cases: CaseSet
    secret: bytes
    """The experiment's secret, from which policies' seeds are derived."""
    run_seed: int
    interface: InterfaceDraw | None = None
    """What the interface is drawn from, if not the executor's own."""

    def job(
        self,
        split: Split,
        index: int,
        position: int,
        directory: Path | None,
        recording: Recording,
        most_s: float = 0.0,
    ) -> EpisodeJob:
        """Return the job that plays a case in at most ``most_s``, if any; its files go into ``directory``, if any."""
        return EpisodeJob(
            position=position,
            seed=self.cases.seed(split, index),
            policy_seed=cases.policy_seed(self.secret, self.cases.environment, split, index, self.run_seed),
            directory=directory,
            recording=recording,
            most_s=most_s,
            world_seed=self.world_seed,
            interface=self.interface,
        )

    @property
    def world_seed(self) -> int:
        """What seeds the draws of the run's world."""
        return cases.world_seed(self.secret, self.cases.environment)


STOPPED_MESSAGE = "The run was stopped; resume it to go on."


class RolloutStopped(EvoPolicyGymError):
    """The run was stopped during a rollout; finished episodes are recorded."""


@dataclass(frozen=True, slots=True)
class Rollouts:
    """Plays cases of one run and records the episodes."""

    writer: RunWriter
    executor: Executor
    job_builder: EpisodeJobBuilder
    stop: Event = field(default_factory=Event)
    """Set to stop the run when the current episode ends."""
    camera: Camera | None = None
    """Makes the films that an agent requests; None if there is none."""

    def rollout(self, checkpoint: str, context: PolicyContext, jobs: Sequence[EpisodeJob]) -> Rollout:
        """Return the rollout of a checkpoint of this run."""
        return Rollout(self.writer.paths.checkpoint(checkpoint), context, jobs)

    def play(self, split: Split, rollouts: Sequence[Rollout], submission: SubmissionState | None = None) -> None:
        """Play rollouts and record each episode; raise ``RolloutStopped`` if the run is stopped."""
        for job in chain.from_iterable(rollout.jobs for rollout in rollouts):
            if job.directory:
                shutil.rmtree(job.directory, ignore_errors=True)

        def repeated(_: Rollout, job: EpisodeJob, message: str) -> None:
            if self.stop.is_set():  # the workers were stopped; the simulator didn't fail
                raise RolloutStopped(STOPPED_MESSAGE)
            self.writer.record(EpisodeRepeated(now(), split, job.position, message))

        submit_index = submission.index if submission else None
        for rollout, job, episode in self.executor.play(rollouts, repeated):
            played = EpisodePlayed(split, rollout.checkpoint.name, job.position, episode, submit_index)
            self.writer.record(played, flush=False, files=job.directory)
            if self.stop.is_set():
                raise RolloutStopped(STOPPED_MESSAGE)


MOST_TRIALS = 1000
"""The limit on trials of a session."""
MOST_RESTORED = 1000
"""The limit on restored policies of a session; each is a line of the event log."""


@dataclass(slots=True)
class Trials:
    """The queue of trials, and counts against the limits."""

    count: int = 0
    restored: int = 0
    _due: deque[tuple[str, Future[Trial]]] = field(default_factory=deque)

    def __bool__(self) -> bool:
        """Whether a trial is waiting."""
        return bool(self._due)

    @property
    def left(self) -> int:
        """How many trials remain."""
        return MOST_TRIALS - self.count

    def take_one(self) -> None:
        """Count a trial; raise ``RequestRefused`` if none remains."""
        if not self.left:
            raise RequestRefused(
                RefusalStatus.INVALID_REQUEST,
                f"The policy was checked {MOST_TRIALS} times, which is the limit; submit it.",
            )
        self.count += 1

    def count_restored(self) -> None:
        """Count a restored policy; raise ``RequestRefused`` if none remains."""
        if self.restored == MOST_RESTORED:
            raise RequestRefused(
                RefusalStatus.INVALID_REQUEST, f"Policies were restored {MOST_RESTORED} times, which is the limit."
            )
        self.restored += 1

    def ask(self, checkpoint: str) -> "Future[Trial]":
        """Queue a trial of a checkpoint and return its result as a future."""
        future = Future[Trial]()
        self._due.append((checkpoint, future))
        return future

    def play(self, rollouts: Rollouts) -> None:
        """Play the next trial; raise the error that stops the run, if there is one."""
        checkpoint, future = self._due.popleft()
        try:
            trial = rollouts.executor.check(
                rollouts.writer.paths.checkpoint(checkpoint), _context(rollouts.writer.state)
            )
        except BaseException as fault:
            future.set_exception(fault)
            raise
        future.set_result(trial)

    def abort(self, why: Exception) -> None:
        """Fail all waiting trials."""
        while self._due:
            self._due.popleft()[1].set_exception(why)


def trial_answer(trial: Trial, left: int) -> dict[str, Any]:
    """Return a trial's result as the judge's JSON answer."""
    wrong = trial.error or trial.failure
    error = {"message": wrong.message, "traceback": wrong.traceback} if wrong else None
    printed = {"stdout": trial.stdout, "stderr": trial.stderr}
    seconds = {"load_s": _rounded(trial.load_s), "act_s": _rounded(trial.act_s)}
    return {"status": trial.status, "error": error, **printed, **seconds, "checks_left": left}


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 6)


def _context(state: RunState) -> PolicyContext:
    """Return the context of a trial: that of a next submission of one episode."""
    charged = SubmissionCharged("", len(state.submissions), "", (0,))
    return state.context(SubmissionState(charged, state.spent, max(0, state.remaining - 1), (None,)))


def finalize(rollouts: Rollouts) -> None:
    """Validate, select and score a closed run, from wherever its event log ends.

    All candidates are played, the promising ones first; the order doesn't affect the result.
    """
    writer = rollouts.writer
    if writer.state.stage is Stage.CLOSED:
        evaluate(rollouts, Split.VALIDATION, writer.state.promising)
        _select(writer)
    if writer.state.stage is Stage.SELECTED and writer.state.selected:
        evaluate(rollouts, Split.HELD_OUT, [writer.state.selected.checkpoint])
        _score(writer)
    writer.write_document()


def evaluate(rollouts: Rollouts, split: Split, checkpoints: Sequence[str]) -> None:
    """Play the cases of a hidden split that checkpoints have not played yet, in a fixed order."""
    rollouts.play(split, [_hidden_rollout(rollouts, split, checkpoint) for checkpoint in checkpoints])


def _hidden_rollout(rollouts: Rollouts, split: Split, checkpoint: str) -> Rollout:
    state, paths = rollouts.writer.state, rollouts.writer.paths
    most_s = state.hidden_limit_s(checkpoint)
    jobs = [
        rollouts.job_builder.job(
            split, index, index, paths.hidden_episode(split, checkpoint, index), Recording.ACTIONS, most_s
        )
        for index in state.rollout(split, checkpoint).missing
    ]
    return rollouts.rollout(checkpoint, state.context(state.first_with(checkpoint)), jobs)


def _select(writer: RunWriter) -> None:
    event = selection(writer.state)
    if isinstance(event, RunFinished):
        event = replace(event, logs_sha256=writer.seal_logs())
    writer.record(event)


def selection(state: RunState) -> CheckpointSelected | RunFinished:
    """Return the selection of a closed run whose candidates have played validation, or its end without candidates."""
    choice = state.choice()
    if choice is None:
        return RunFinished(now(), RunStatus.NO_OK_SUBMIT)
    checkpoint = state.submissions[choice.submit_index].charged.checkpoint
    return CheckpointSelected(now(), choice.submit_index, checkpoint, choice.validation_mean)


def _score(writer: RunWriter) -> None:
    event = scoring(writer.state)
    evidence = writer.seal(writer.paths.evaluation)
    writer.record(replace(event, evaluation_sha256=evidence, logs_sha256=writer.seal_logs()))


def scoring(state: RunState) -> RunFinished:
    """Return the end of a run whose selected checkpoint has played held-out."""
    held_out = state.held_out()
    if held_out is None:
        raise RecordError("Held-out cases are missing at the end of their rollout.")
    return RunFinished(now(), RunStatus.SCORED, held_out.mean, held_out.standard_error)
