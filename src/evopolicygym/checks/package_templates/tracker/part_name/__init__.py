"""A tracker that writes a JSON line for each point, into a file for each run."""

import json
from collections.abc import Mapping

from evopolicygym.tracking.tracker import TrackedRun


class JsonLinesTracker:
    """Writes one file; a run that is resumed is continued in the same file."""

    def __init__(self, run: TrackedRun) -> None:
        self._file = (run.directory / f"{run.run_id}.jsonl").open("a", encoding="utf-8", buffering=1)
        if not run.is_resumed:
            self._write({"name": run.name, "task": run.group, "config": dict(run.config)})

    def log(self, episodes_spent: int, values: Mapping[str, float]) -> None:
        """Write the values at a step, such as ``mean_return``; steps may decrease."""
        self._write({"episodes_spent": episodes_spent, **values})

    def close(self, summary: Mapping[str, str | float]) -> None:
        """Write the results; ``status`` is ``stopped`` if the run may be resumed."""
        self._write({"summary": dict(summary)})
        self._file.close()

    def _write(self, document: Mapping[str, object]) -> None:
        self._file.write(json.dumps(document) + "\n")


def make(run: TrackedRun) -> JsonLinesTracker:
    """Return the tracker; import what is slow or optional here."""
    return JsonLinesTracker(run)
