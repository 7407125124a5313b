"""The record of a pack's check: what came of each task, and under which versions it was played."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CheckedTask:
    """What came of one task of a pack."""

    name: str
    id: str
    ok: bool
    wrong: str = ""
    """What failed, in words; empty where nothing did."""
    repeats: bool | None = None
    """Whether two resets and the same actions repeat bit for bit; None where it couldn't be played."""
    steps_per_second: int | None = None
    """Of the environment alone, in processor time."""
    random_mean: float | None = None
    """Mean return of the whole episodes of random actions; None where there was time for none."""
    random_episodes: int = 0
    """How many of them there were."""
    idle_mean: float | None = None
    """The same of idle play; None where there was time for none, or where no action is idle."""
    max_steps: int | None = None
    """An episode is truncated after so many steps."""
    observation: str = ""
    """The space of observations in a few words."""
    action: str = ""
    """The space of actions in a few words."""
    left: tuple[str, ...] = ()
    """Files that stay when its process has ended."""


@dataclass(frozen=True, slots=True)
class PackRecord:
    """What ``packs check`` found of a pack, task by task."""

    pack: str
    evopolicygym: str
    """Our version."""
    date: str
    """The day on which the last of its tasks was played, as 2026-11-23."""
    processor: str
    requirements: tuple[str, ...]
    """What the pack named then."""
    versions: Mapping[str, str]
    """Of Python, and of the distributions that numbers depend on, by name."""
    tasks: tuple[CheckedTask, ...]

    def task(self, name: str) -> CheckedTask | None:
        """Return what came of a task; None where it wasn't played."""
        return next((one for one in self.tasks if one.name == name), None)
