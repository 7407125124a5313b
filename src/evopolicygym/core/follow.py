"""Progress of long loops: the caller of a loop may pass a ``ProgressTracker`` that shows how far it is."""

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

Each = TypeVar("Each")


class ProgressTracker(Protocol):
    """Shows the progress of a loop."""

    def __call__(self, what: str, each: Sequence[Each], /) -> Iterable[Each]:
        """Yield the items of ``each``, and show how many have been taken."""


def no_progress(_what: str, each: Sequence[Each], /) -> Iterable[Each]:
    """Return the items, and show nothing."""
    return each
