"""What a tracker is, and how one is named.

A tracker is one file of the folder ``trackers`` that defines ``make(run) -> Tracker``, an entry point of the group
``evopolicygym.trackers``, or ``package.module:make``. It lives in a process of its own (``process.py``), so it may be
slow, print and raise as it likes. When a run logs which points is described in ``points.py`` and ``sink.py``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from evopolicygym.core.errors import UnknownName
from evopolicygym.core.registry import Registry

PROJECT = "evopolicygym"
"""What the project, or the experiment, is called in every tracker."""
TRACKERS = Registry(
    kind="tracker",
    package="evopolicygym.tracking.trackers",
    group="evopolicygym.trackers",
    attribute="make",
    from_outside="make",
)
"""A module of the folder loads without its package, which ``make`` imports: naming a tracker takes no time."""
Configured = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class TrackedRun:
    """The run that a tracker is to follow."""

    run_id: str
    """The run's id, which no other run has; a tracker run of the same id is the same run."""
    name: str
    """What a person calls it: task, agent and id."""
    group: str
    """The task."""
    config: Mapping[str, Configured]
    """What was configured, by flat names such as ``budget``; neither secrets nor paths of this machine."""
    directory: Path
    """Where a tracker without a place of its own keeps its files, together with those of other runs."""
    is_resumed: bool = False
    """Whether this tracker has logged points of the run before."""


def refuse_unknown_tracker(name: str) -> None:
    """Raise ``UnknownName`` where no tracker is named so; what another package adds is loaded in its process alone."""
    if name and ":" not in name and name not in TRACKERS.names():
        raise UnknownName(TRACKERS.kind, name, TRACKERS.names())


class Tracker(Protocol):
    """Logs one run. Whatever it raises ends the tracking, and never the run."""

    def log(self, episodes_spent: int, values: Mapping[str, float]) -> None:
        """Log finite numbers at a step, in train episodes spent; a step may come that is smaller than the last."""

    def close(self, summary: Mapping[str, str | float]) -> None:
        """End this part of the tracker's run, with everything kept.

        ``status`` in the summary is ``scored``, ``no_ok_submit``, or ``stopped`` where the run may be resumed.
        """
