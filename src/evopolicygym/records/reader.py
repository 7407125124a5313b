"""Reading a run's record, by anyone, at any time, without its lock."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from evopolicygym.core.errors import RecordError, UsageError
from evopolicygym.core.event import Event
from evopolicygym.core.run import RunState, fold
from evopolicygym.records import journal
from evopolicygym.records.paths import RunPaths

KNOWN_BY = frozenset({"journal.jsonl", "run.json"})
"""Files of which one at least lies in a run's directory; who reads results needs no more than the second."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What a run's directory holds."""

    paths: RunPaths
    events: tuple[Event, ...]
    state: RunState
    torn: int
    """Bytes of a line at the journal's end that was not written whole; resuming cuts it off."""
    hashes: tuple[str, ...]
    """The hash of each event's line in the journal."""


def read_run(root: Path) -> RunRecord:
    """Return a run's record; raise ``UsageError`` where there is none, ``RecordError`` where it is broken."""
    paths = RunPaths(root)
    try:
        contents = journal.read(paths.journal)
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(_not_a_run(root)) from None
    if not contents.events:
        raise RecordError(f"{paths.journal} holds no event: the run was never opened.")
    return record_of(paths, contents)


def record_of(paths: RunPaths, contents: journal.JournalContents) -> RunRecord:
    """Return the record whose journal, with one event at least, holds this."""
    return RunRecord(paths, contents.events, fold(contents.events), contents.torn, contents.hashes)


def find_runs(below: Path, known_by: frozenset[str] = frozenset({"journal.jsonl"})) -> Iterator[Path]:
    """Yield the directories of all runs below a directory, in the order of their paths.

    A run is known by any of the files ``known_by``; where only its ``run.json`` was kept, that may be among them.
    """
    for directory, directories, files in os.walk(below):
        directories.sort()
        if not known_by.isdisjoint(files):
            directories.clear()  # a run holds no other, and what is in it may come and go while it is played
            yield Path(directory)


def runs_meant(given: Iterable[Path]) -> list[Path]:
    """Return the directories of all runs that are meant, each once: a run's own, or all below a directory.

    A directory without runs is returned as it is, so that who reads it says what it lacks.
    """
    return list(dict.fromkeys(root for path in given for root in (list(find_runs(path)) or [path])))


def _not_a_run(root: Path) -> str:
    if not root.exists():
        return f"{root} does not exist; a run's directory is asked for."
    near = [str(path) for path in find_runs(root)][-3:]
    hint = f" Runs below it: {', '.join(near)}." if near else " A run's directory holds a journal.jsonl."
    return f"{root} is not the directory of a run.{hint}"
