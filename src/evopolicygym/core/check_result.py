"""What long operations report: findings of checks and audits, and the progress of loops."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, TypeVar

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one part of a check or an audit."""

    name: str
    ok: bool
    """Whether it passed. What was not promised always passes."""
    detail: str = ""
    """What was seen, or what is wrong and how to mend it."""
    title: str = ""
    """What was tried, if the name is an id."""
    verdict: str = ""
    """The result in a word or two, if ``ok`` and ``FAILED`` don't say it."""
    promised: bool = True
    """Whether it had to pass."""
    settled_by_replay: bool = False
    """Whether it fails only because of missing files that a replay of the held-out cases makes up for."""
    more: Mapping[str, object] = field(default_factory=dict)
    """Further JSON values by name, for programs."""


REPLAY = "replay"
"""The name of a replay's finding."""


class ReplayVerdict(StrEnum):
    """The verdict of a replay on a score."""

    SAME = "same"
    """Every trajectory equals the recorded one, bit for bit."""
    ROUNDING = "rounding"
    """The record was made with other arithmetic or versions, and returns differ only by rounding."""
    DIFFERENT = "different"
    """Anything else: the record was changed, or a chaotic simulator amplified rounding."""


class ProgressTracker(Protocol):
    """Shows the progress of a loop."""

    def __call__(self, what: str, items: Sequence[Item], /) -> Iterable[Item]:
        """Yield the items, and show how many were taken."""


def no_progress(_what: str, items: Sequence[Item], /) -> Iterable[Item]:
    """Return the items, and show nothing."""
    return items


class ReplayWatch(Protocol):
    """Passes on the cases that a replay has played, of so many, and may show how far it is."""

    def __call__(self, played: Iterable[Item], total: int, /) -> Iterable[Item]:
        """Yield the cases."""


def unwatched(played: Iterable[Item], _total: int, /) -> Iterable[Item]:
    """Return the cases, and show nothing."""
    return played
