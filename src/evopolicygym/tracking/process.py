"""The process that a tracker lives in: reads a run's messages line by line and has the tracker log them.

Started as ``python -P -m evopolicygym.tracking.process``; what it prints goes into a log, whose last line says why it
failed. The end of its input is the end of the run, or of whoever played it.
"""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from evopolicygym.core.errors import EvoPolicyGymError, MissingExtra
from evopolicygym.tracking import notes
from evopolicygym.tracking.tracker import TRACKERS, TrackedRun, Tracker

POLITENESS = 10
"""By how much it steps back for a run that needs the processor."""


def main() -> int:
    """Log what comes in until there is no more; return the exit code."""
    os.nice(POLITENESS)
    messages = (json.loads(line) for line in sys.stdin.buffer)
    try:
        follow(messages)
    except EvoPolicyGymError as error:
        print(error, file=sys.stderr)  # noqa: T201 - the log's last line is the reason
        return 1
    return 0


def follow(messages: Iterator[Mapping[str, Any]]) -> None:
    """Make the tracker that the first message names, and have it log the rest."""
    opening = next(messages, None)
    if opening is None:
        return
    sys.path[:] = opening["modules"]
    note, path = notes.decoded(opening["note"]), Path(opening["note_path"])
    run = {**opening["run"], "directory": Path(opening["run"]["directory"]), "is_resumed": note.is_begun}
    tracker = made(note.tracker, TrackedRun(**run))
    note = note.but(is_begun=True)
    notes.write(path, note)
    summary: Mapping[str, str | float] = {"status": "stopped"}
    for message in messages:
        match message["kind"]:
            case "log":
                tracker.log(message["episodes_spent"], message["values"])
            case "close":
                summary = message["summary"]
        if changes := message.get("note"):
            note = note.but(**changes)
            notes.write(path, note)
    tracker.close(summary)
    if summary["status"] != "stopped":
        notes.write(path, note.but(is_finished=True))


def made(name: str, run: TrackedRun) -> Tracker:
    """Return a tracker by its name; raise ``UnknownName``, or ``MissingExtra`` where its package is not installed."""
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
