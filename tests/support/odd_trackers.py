"""Trackers for tests: one that keeps what it is given as lines, and some that misbehave."""

import json
import os
import threading
from collections.abc import Mapping

from evopolicygym.tracking.tracker import TrackedRun


class Lines:
    """Keeps each call as a line of ``lines.jsonl``, in the directory for trackers."""

    def __init__(self, run: TrackedRun) -> None:
        run.directory.mkdir(parents=True, exist_ok=True)
        self._path = run.directory / "lines.jsonl"
        self._write({"run": run.run_id, "resumed": run.is_resumed, "config": dict(run.config)})

    def log(self, episodes_spent: int, values: Mapping[str, float]) -> None:
        """Keep a point."""
        self._write({"step": episodes_spent, **values})

    def close(self, summary: Mapping[str, str | float]) -> None:
        """Keep the summary."""
        self._write({"summary": dict(summary)})

    def _write(self, line: Mapping[str, object]) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


class Raises(Lines):
    """Raises at the first point."""

    def log(self, episodes_spent: int, values: Mapping[str, float]) -> None:
        """Fail."""
        raise OSError(f"no point at {episodes_spent} can be stored: {sorted(values)}")


class Blocks(Lines):
    """Never returns from its first point."""

    def log(self, episodes_spent: int, values: Mapping[str, float]) -> None:  # noqa: ARG002 - never used
        """Wait forever."""
        threading.Event().wait()


class Exits(Lines):
    """Ends its process at once."""

    def log(self, episodes_spent: int, values: Mapping[str, float]) -> None:  # noqa: ARG002 - never used
        """Leave."""
        os._exit(7)


class NeverMade(Lines):
    """Needs a package that nobody has."""

    def __init__(self, run: TrackedRun) -> None:
        import a_tracker_that_nobody_has  # type: ignore[import-not-found]

        super().__init__(a_tracker_that_nobody_has.of(run))
