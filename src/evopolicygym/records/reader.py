"""Reading a run's record, by anyone, at any time, without its lock."""

from dataclasses import dataclass
from pathlib import Path

from evopolicygym.core.errors import RecordError, UsageError
from evopolicygym.core.event import Event
from evopolicygym.core.run import RunState, fold
from evopolicygym.records import journal
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.run_names import find_runs


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


def _not_a_run(root: Path) -> str:
    if not root.exists():
        return f"{root} does not exist; expected a run's directory."
    near = [str(path) for path in find_runs(root)][-3:]
    hint = f" Runs below it: {', '.join(near)}." if near else " A run's directory holds a journal.jsonl."
    return f"{root} is not the directory of a run.{hint}"
