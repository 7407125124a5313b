"""Trials: a policy is constructed and asked for one action where policies run, free of charge.

The observation is drawn at random from the space, always the same: a trial says what a submission's status would be,
and nothing of any case. There are so many a session, one at a time, and they wait for all that was charged.
"""

from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from evopolicygym.core.errors import RefusalStatus, RequestRefused
from evopolicygym.core.event import SubmissionCharged
from evopolicygym.core.rollout import Trial
from evopolicygym.core.run import RunState, SubmissionState
from evopolicygym.core.task import PolicyContext
from evopolicygym.judge.rollouts import Rollouts

MOST_TRIALS = 1000
"""Trials of one session: enough for any agent that reads what they say, and few enough to cost a judge little."""
MOST_RESTORED = 1000
"""Policies that one session restores: each is a line of the journal."""


@dataclass(slots=True)
class Trials:
    """The trials that wait for the thread that plays, and how many there were."""

    count: int = 0
    restored: int = 0
    _due: deque[tuple[str, Future[Trial]]] = field(default_factory=deque)

    def __bool__(self) -> bool:
        """Whether any waits."""
        return bool(self._due)

    @property
    def left(self) -> int:
        """How many there may still be."""
        return MOST_TRIALS - self.count

    def take_one(self) -> None:
        """Count one; raise ``RequestRefused`` where there were as many as there may be."""
        if not self.left:
            raise RequestRefused(
                RefusalStatus.INVALID_REQUEST,
                f"The policy was checked {MOST_TRIALS} times, which is the most; submit it.",
            )
        self.count += 1

    def count_restored(self) -> None:
        """Count a policy that is restored; raise ``RequestRefused`` where there were as many as there may be."""
        if self.restored == MOST_RESTORED:
            raise RequestRefused(
                RefusalStatus.INVALID_REQUEST, f"Policies were restored {MOST_RESTORED} times, which is the most."
            )
        self.restored += 1

    def ask(self, checkpoint: str) -> "Future[Trial]":
        """Have a checkpoint tried; return what becomes known by that."""
        future = Future[Trial]()
        self._due.append((checkpoint, future))
        return future

    def play(self, rollouts: Rollouts) -> None:
        """Try the next checkpoint; raise what stops the run."""
        checkpoint, future = self._due.popleft()
        try:
            trial = rollouts.executor.check(
                rollouts.writer.paths.checkpoint(checkpoint), _context(rollouts.writer.state)
            )
        except BaseException as fault:
            future.set_exception(fault)
            raise
        future.set_result(trial)

    def give_up(self, why: Exception) -> None:
        """Answer all that wait: nothing is tried any more."""
        while self._due:
            self._due.popleft()[1].set_exception(why)


def answer(trial: Trial, left: int) -> dict[str, Any]:
    """Return what the endpoint says of a trial."""
    wrong = trial.error or trial.failure
    said = {"message": wrong.message, "traceback": wrong.traceback} if wrong else None
    printed = {"stdout": trial.stdout, "stderr": trial.stderr}
    seconds = {"load_s": _rounded(trial.load_s), "act_s": _rounded(trial.act_s)}
    return {"status": trial.status, "error": said, **printed, **seconds, "checks_left": left}


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 6)


def _context(state: RunState) -> PolicyContext:
    """Return what the policy is given: as in a submission of one episode that comes next."""
    charged = SubmissionCharged("", len(state.submissions), "", (0,))
    return state.context(SubmissionState(charged, state.spent, max(0, state.remaining - 1), (None,)))
