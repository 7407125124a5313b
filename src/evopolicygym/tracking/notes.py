"""The note of what a tracker has logged of a run, and where trackers keep things: beside the runs, in no record."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from evopolicygym.core import regular_file
from evopolicygym.core.errors import RecordError
from evopolicygym.records import durable
from evopolicygym.records.run_names import EXPERIMENT_FILE

DIRECTORY = ".tracking"
"""No experiment can be named so."""
MOST_BYTES = 1 << 16
"""Of a note."""
ABOVE = 3
"""How many directories above a run's its experiment lies in the usual place: agent, task and the run's own."""


@dataclass(frozen=True, slots=True)
class Note:
    """How far a tracker has come with a run."""

    tracker: str
    is_begun: bool = False
    submissions: int = 0
    """How many submissions are logged."""
    is_validated: bool = False
    is_finished: bool = False

    def but(self, **changes: Any) -> "Note":  # noqa: ANN401 - any field's
        """Return the note with some fields changed."""
        return replace(self, **changes)


@dataclass(frozen=True, slots=True)
class TrackingPlaces:
    """Where the tracking of one run lies."""

    directory: Path
    """What the trackers of all runs below one directory share."""
    note: Path
    log: Path
    """What the tracker's process printed."""


def places_of(root: Path) -> TrackingPlaces:
    """Return where the tracking of a run lies: in ``runs/.tracking``, or beside a run that lies alone."""
    experiment = root.parents[ABOVE - 1] if len(root.parents) > ABOVE else root
    above = experiment.parent if (experiment / EXPERIMENT_FILE).is_file() else root.parent
    directory = above / DIRECTORY
    return TrackingPlaces(directory, directory / f"{root.name}.json", directory / f"{root.name}.log")


def note_of(path: Path) -> Note:
    """Return the note of a run, an empty one where there is none that can be read."""
    try:
        document = json.loads(regular_file.read(path, MOST_BYTES))
        return decoded(document)
    except (OSError, RecordError, ValueError, TypeError, RecursionError):
        return Note("")


def decoded(document: Mapping[str, Any]) -> Note:
    """Return the note that a JSON object holds; raise ``TypeError`` or ``ValueError`` where it holds none."""
    note = Note(**document)
    if not isinstance(note.tracker, str) or not isinstance(note.submissions, int) or note.submissions < 0:
        raise ValueError(f"{document} is no note of what was tracked.")
    return note


def write(path: Path, note: Note) -> None:
    """Write a note in place of the last."""
    durable.write_text(path, json.dumps(asdict(note)) + "\n")
