"""The contract of trackers, and their names.

A tracker is one file of the folder ``trackers`` that defines ``make(run) -> Tracker``, an entry point of the group
``evopolicygym.trackers``, or ``package.module:make``. It runs in a separate process, so it may be slow, print and
raise.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from evopolicygym.core.errors import UnknownName
from evopolicygym.core.registry import Registry

PROJECT = "evopolicygym"
"""Name of the project or experiment in every tracker."""
TRACKERS = Registry(
    kind="tracker",
    package="evopolicygym.tracking.trackers",
    group="evopolicygym.trackers",
    attribute="make",
    from_outside="make",
)
"""Modules in the folder import their packages in ``make`` only, so that loading is fast."""
Configured = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class TrackedRun:
    """The run that a tracker logs."""

    run_id: str
    """Unique id of the run; a tracker run with the same id is the same run."""
    name: str
    """Readable name: task, agent and id."""
    group: str
    """The task."""
    config: Mapping[str, Configured]
    """Configuration by flat names such as ``budget``, without secrets and local paths."""
    directory: Path
    """Directory for files of trackers without a default location; shared by runs."""
    is_resumed: bool = False
    """Whether this tracker logged points of the run earlier."""


def refuse_unknown_tracker(name: str) -> None:
    """Raise ``UnknownName`` if no tracker has the name; other packages' trackers are not loaded."""
    if name and ":" not in name and name not in TRACKERS.names():
        raise UnknownName(TRACKERS.kind, name, TRACKERS.names())


class Tracker(Protocol):
    """Logs one run. An exception ends the tracking, never the run."""

    def log(self, episodes_spent: int, values: Mapping[str, float]) -> None:
        """Log finite numbers at a step, in train episodes spent; steps may decrease."""

    def close(self, summary: Mapping[str, str | float]) -> None:
        """Close the tracker's run after storing everything.

        ``status`` in the summary is ``scored``, ``no_ok_submit``, or ``stopped`` if the run may be resumed.
        """
