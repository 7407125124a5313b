"""Following long work: whoever goes through many things hands them to a ``Follow``, which may show how far it is."""

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

Each = TypeVar("Each")


class Follow(Protocol):
    """Shows how far something is that is gone through."""

    def __call__(self, what: str, each: Sequence[Each], /) -> Iterable[Each]:
        """Return what it is handed, thing by thing."""


def unseen(_what: str, each: Sequence[Each], /) -> Iterable[Each]:
    """Show nothing."""
    return each
