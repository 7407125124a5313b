"""How fast something goes on: the time that is left, and when a line about it is due where there is no terminal."""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil
from time import monotonic

from evopolicygym.core.number_text import duration

EVERY_S = 30.0
"""Seconds from one line to the next where there is no terminal."""
Clock = Callable[[], float]


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
