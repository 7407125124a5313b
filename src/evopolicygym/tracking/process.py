"""The process of a tracker: reads a run's messages line by line, logs them, and notes its progress.

It runs as ``python -P -m evopolicygym.tracking.process`` and exits at the end of its input. Its output goes to a log
file, whose last line is the reason of a failure. Notes are stored next to the runs, not in run directories.
"""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from evopolicygym.core import regular_file
from evopolicygym.core.errors import EvoPolicyGymError, MissingExtra, RecordError
from evopolicygym.records import atomic
from evopolicygym.records.reader import EXPERIMENT_FILE
from evopolicygym.tracking.tracker import TRACKERS, TrackedRun, Tracker

DIRECTORY = ".tracking"
"""Directory of all trackers' files; not a valid name of an experiment."""
MAX_NOTE_BYTES = 1 << 16
"""Largest size of a note."""
EXPERIMENT_DEPTH = 3
"""Levels from an experiment's directory to a run: task, agent, run."""


@dataclass(frozen=True, slots=True)
class Note:
    """The progress of a tracker with a run."""

    tracker: str
    is_begun: bool = False
    submissions: int = 0
    """Number of logged submissions."""
    is_validated: bool = False
    is_finished: bool = False


@dataclass(frozen=True, slots=True)
class TrackingPaths:
    """Paths of one run's tracking."""

    directory: Path
    """Shared by the trackers of all runs in one directory."""
    note: Path
    log: Path
    """Output of the tracker's process."""


def tracking_paths(root: Path) -> TrackingPaths:
    """Return the paths of a run's tracking: in ``runs/.tracking``, or next to a run outside an experiment."""
    experiment = root.parents[EXPERIMENT_DEPTH - 1] if len(root.parents) > EXPERIMENT_DEPTH else root
    above = experiment.parent if (experiment / EXPERIMENT_FILE).is_file() else root.parent
    directory = above / DIRECTORY
    return TrackingPaths(directory, directory / f"{root.name}.json", directory / f"{root.name}.log")


def read_note(path: Path) -> Note:
    """Return the note of a run; an empty note if it is missing or unreadable."""
    try:
        document = json.loads(regular_file.read(path, MAX_NOTE_BYTES))
        return decode_note(document)
    except (OSError, RecordError, ValueError, TypeError, RecursionError):
        return Note("")


def decode_note(document: Mapping[str, Any]) -> Note:
    """Return the note of a JSON object; raise ``TypeError`` or ``ValueError`` if it is invalid."""
    note = Note(**document)
    if not isinstance(note.tracker, str) or not isinstance(note.submissions, int) or note.submissions < 0:
        raise ValueError(f"Invalid note of a tracker: {document}.")
    return note


def write_note(path: Path, note: Note) -> None:
    """Replace a note."""
    atomic.write_text(path, json.dumps(asdict(note)) + "\n")


NICENESS = 10
"""Niceness of the process, so that the run has priority."""


def main() -> int:
    """Log all messages from standard input; return the exit code."""
    os.nice(NICENESS)
    messages = (json.loads(line) for line in sys.stdin.buffer)
    try:
        log_messages(messages)
    except EvoPolicyGymError as error:
        print(error, file=sys.stderr)  # noqa: T201 - the log's last line is the reason
        return 1
    return 0


def log_messages(messages: Iterator[Mapping[str, Any]]) -> None:
    """Create the tracker that the first message names, and log the other messages with it."""
    opening = next(messages, None)
    if opening is None:
        return
    sys.path[:] = opening["modules"]
    note, path = decode_note(opening["note"]), Path(opening["note_path"])
    run = {**opening["run"], "directory": Path(opening["run"]["directory"]), "is_resumed": note.is_begun}
    tracker = make_tracker(note.tracker, TrackedRun(**run))
    note = replace(note, is_begun=True)
    write_note(path, note)
    summary: Mapping[str, str | float] = {"status": "stopped"}
    for message in messages:
        match message["kind"]:
            case "log":
                tracker.log(message["episodes_spent"], message["values"])
            case "close":
                summary = message["summary"]
        if changes := message.get("note"):
            note = replace(note, **changes)
            write_note(path, note)
    tracker.close(summary)
    if summary["status"] != "stopped":
        write_note(path, replace(note, is_finished=True))


def make_tracker(name: str, run: TrackedRun) -> Tracker:
    """Create a tracker by name; raise ``UnknownName``, or ``MissingExtra`` if its package is not installed."""
    make = TRACKERS.load(name)
    try:
        tracker: Tracker = make(run)
    except ModuleNotFoundError as error:
        if ":" in name or name in TRACKERS.installed():
            raise
        raise MissingExtra(f"The tracker {name!r}", name, str(error.name)) from error
    return tracker


if __name__ == "__main__":
    sys.exit(main())
