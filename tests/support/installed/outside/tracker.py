"""A tracker: a line of text for each point."""

from collections.abc import Mapping
from typing import TextIO

from evopolicygym.tracking.tracker import TrackedRun


class TextTracker:
    """Writes into one file."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def log(self, episodes_spent: int, values: Mapping[str, float]) -> None:
        """Write a point."""
        print(episodes_spent, *values, file=self._file)

    def close(self, summary: Mapping[str, str | float]) -> None:
        """Write how the run ended."""
        print(summary["status"], file=self._file)
        self._file.close()


def make(run: TrackedRun) -> TextTracker:
    """Return the tracker, open."""
    return TextTracker((run.directory / f"{run.run_id}.txt").open("a", encoding="utf-8"))
