"""Progress of a run: episodes of its present stage, its pace, the time left, and when to print a line about it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil
from time import monotonic

from evopolicygym.core.cases import Split
from evopolicygym.core.run import RunState, Stage
from evopolicygym.core.text import duration

EVERY_S = 30.0
"""Seconds from one line to the next where there is no terminal."""
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class RunProgress:
    """How far the run is."""

    stage: Stage
    done: int
    total: int
    """Episodes of this stage: charged ones of the budget, validation's, held-out's."""


def progress_of(state: RunState) -> RunProgress:
    """Return how far a run is."""
    match state.stage:
        case Stage.OPEN:
            return RunProgress(state.stage, state.spent, state.budget)
        case Stage.CLOSED:
            return RunProgress(state.stage, *validation_played(state))
        case Stage.SELECTED | Stage.FINISHED:
            chosen = state.selected.checkpoint if state.selected else ""
            rollout = state.rollout(Split.HELD_OUT, chosen)
            return RunProgress(state.stage, len(rollout.returns), len(rollout.episodes))


def validation_played(state: RunState) -> tuple[int, int]:
    """Return how many validation episodes were played, and of how many."""
    done = sum(len(state.rollout(Split.VALIDATION, checkpoint).returns) for checkpoint in state.checkpoints)
    return done, len(state.checkpoints) * state.opened.task.validation_cases


@dataclass(slots=True)
class Pace:
    """Follows something from when it is first seen."""

    before: float = 0.0
    """How much of it was done by then."""
    clock: Clock = monotonic
    _began: float = field(init=False)
    _said: float = field(init=False)

    def __post_init__(self) -> None:
        """Start to count."""
        self._began = self._said = self.clock()

    @property
    def elapsed(self) -> float:
        """Seconds since it was first seen."""
        return self.clock() - self._began

    def left(self, done: float, total: float) -> str:
        """Return in words how long it will still take at the pace so far; empty where that is unknown, or it is done.

        Never less than a second: what isn't done takes time, however little of it is left.
        """
        played = done - self.before
        if played <= 0 or done >= total:
            return ""
        return f"about {duration(max(1, ceil(self.elapsed * (total - done) / played)))} left"

    def is_due(self) -> bool:
        """Whether it is time for another line; asked only by who then prints one."""
        if self.clock() - self._said < EVERY_S:
            return False
        self._said = self.clock()
        return True
