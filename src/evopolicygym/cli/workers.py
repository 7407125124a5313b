"""``--workers`` of verbs that play: a note where fewer are started."""

from evopolicygym.api.workers import capped
from evopolicygym.cli.console import warn


def capped_with_note(workers: int | None, executor: str) -> int | None:
    """Return how many workers are started here, with a note where fewer would do as much as were asked for."""
    started, note = capped(workers, executor)
    if note:
        warn(note)
    return started
