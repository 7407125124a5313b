"""Finding and reading runs, by anyone, at any time, without their locks.

Users name a run by its path, its id, a prefix of its id, or ``latest``; an experiment's name is its directory's name.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from evopolicygym.core import regular_file
from evopolicygym.core.directories import DEFAULT_RUNS, state_directory
from evopolicygym.core.errors import RecordError, UsageError
from evopolicygym.core.event import Event
from evopolicygym.core.run import RunState, fold
from evopolicygym.records import journal
from evopolicygym.records.paths import EXPERIMENT, RunPaths
from evopolicygym.records.release import METADATA, is_release, read_release

Paths = str | Path | Iterable[str | Path]
"""A run (its directory, id, id prefix, or ``latest``), a directory with runs below it, or several of these."""
EXPERIMENT_FILE = "experiment.json"
"""The file in an experiment's directory that holds its identity."""
SHARED_MARK = "shared"
"""In an experiment's state directory: a file of this name says that other machines hold the secret as well."""
MAX_EXPERIMENT = 1 << 20
"""Bytes of ``experiment.json``."""
EXPERIMENT_DEPTH = 2
"""The index of an experiment's directory among those above a run's."""
LATEST = "latest"
JOURNAL, DOCUMENT = "journal.jsonl", "run.json"
"""A run is a directory with an event log, or one of the paper's release; ``run.json`` alone is none."""
MAX_DIRECTORIES = 1_000_000
"""Directories that a search for runs looks into, at most."""
RUN_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{4}", re.ASCII)
"""A run's id, the name of its directory: its start in UTC, and two random bytes."""
MAX_LISTED = 8
"""Runs that a message lists, at most."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """The contents of a run directory."""

    paths: RunPaths
    events: tuple[Event, ...]
    state: RunState
    torn: int
    """Bytes of an incomplete line at the event log's end, which resuming cuts off."""
    hashes: tuple[str, ...]
    """The hash of each event's line in the event log; empty without one."""
    ignored: frozenset[str] = frozenset()
    """Files at the top of a checkpoint's directory that are no part of the policy."""


def read_run(root: Path) -> RunRecord:
    """Read a run; raise ``UsageError`` if ``root`` isn't a run directory, ``RecordError`` if the run is broken."""
    paths = RunPaths(root)
    if is_release(root):
        return RunRecord(paths, *read_release(root), 0, (), METADATA)
    try:
        contents = journal.read(paths.journal)
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(_not_a_run(root)) from None
    except OSError as error:
        raise RecordError(f"{paths.journal} can't be read: {error.strerror or error}.") from error
    if not contents.events:
        raise RecordError(f"{paths.journal} holds no event: the run was never opened.")
    return record_of(paths, contents)


def record_of(paths: RunPaths, contents: journal.JournalContents) -> RunRecord:
    """Return the record of an event log that has at least one event."""
    return RunRecord(paths, contents.events, fold(contents.events), contents.torn, contents.hashes)


def _not_a_run(root: Path) -> str:
    if not root.exists():
        return f"{root} does not exist; expected a run directory."
    near = [str(path) for path in find_runs(root)][-3:]
    hint = f" Runs below it: {', '.join(near)}." if near else " A run directory holds a journal.jsonl."
    return f"{root} is not a run directory.{hint}"


def find_run(name: Path, below: Path) -> Path:
    """Return the run directory that a user names; raise ``UsageError`` if no run matches, or several do.

    An existing path is taken as it is; otherwise the runs below a directory are searched by their ids.
    """
    if name.exists() or len(name.parts) != 1:
        return name
    text = str(name)
    by_id = _by_id(below)
    if text == LATEST:
        if not by_id:
            raise UsageError(_no_runs(below))
        matches = by_id[max(by_id, key=lambda run_id: _start_key(run_id, by_id[run_id]))]
    else:
        matches = [root for run_id, roots in by_id.items() if run_id.startswith(text) for root in roots]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise UsageError(f"{len(matches)} runs match {text!r}; give a path, or more of the id:{_listing(matches)}")
    newest = [root for run_id in sorted(by_id) for root in by_id[run_id]]
    if not newest:
        raise UsageError(f"No run {text!r}. {_no_runs(below)}")
    raise UsageError(
        f"No run {text!r} in {below}. Give a path, an id prefix, or {LATEST}. Runs there:{_listing(newest)}"
    )


def find_paths(runs: Paths | None, below: str | Path = DEFAULT_RUNS, *, needed: bool = True) -> list[Path]:
    """Return the directories that a user names, of runs or with runs below them; ids are searched in ``below``.

    Without names, this is ``below`` itself if runs are needed or ``below`` isn't the default. Raises ``UsageError``
    for an id that no run has.
    """
    below = Path(below)
    if runs is None:
        return [below] if needed or below != DEFAULT_RUNS else []
    paths = map(Path, [runs] if isinstance(runs, str | Path) else runs)
    return [path if path == below else find_run(path, below) for path in paths]


@dataclass(frozen=True, slots=True)
class Problem:
    """A run that is left out, or a directory that may hold runs, and why."""

    root: Path
    reason: str

    @property
    def document(self) -> dict[str, str]:
        """The same as a JSON document."""
        return {"run": str(self.root), "reason": self.reason}


def find_runs(below: Path) -> Iterator[Path]:
    """Yield all run directories below a directory, in the order of their paths; ``scan`` yields what is no run, too."""
    return (item for item in scan(below) if isinstance(item, Path))


def scan(below: Path) -> Iterator[Path | Problem]:
    """Yield all run directories below a directory, in the order of their paths, and what can't be read or is no run.

    No link is followed. Raises ``UsageError`` for more than ``MAX_DIRECTORIES``.
    """
    unreadable: list[Problem] = []

    def note(error: OSError) -> None:
        path = Path(error.filename or below)
        reason = f"can't be read: {error.strerror}. If it holds runs, its owner can let you read it."
        unreadable.append(Problem(path, reason))

    for count, (directory, directories, files) in enumerate(os.walk(below, onerror=note)):
        yield from unreadable
        unreadable.clear()
        if count >= MAX_DIRECTORIES:
            raise UsageError(
                f"{below} has more than {MAX_DIRECTORIES:,} directories. Name a directory closer to the runs."
            )
        directories.sort()
        names = {*files, *directories}
        if JOURNAL in names:
            directories.clear()  # a run contains no other run, and its files come and go while it is played
            yield Path(directory)
        elif DOCUMENT in files and is_release(Path(directory)):
            directories.clear()
            yield Path(directory)
        elif DOCUMENT in files:
            yield Problem(
                Path(directory), f"has a {DOCUMENT} and no event log ({JOURNAL}): nothing of it can be checked."
            )
    yield from unreadable


def expand_runs(paths: Iterable[Path]) -> list[Path]:
    """Return the run directories at or below each place, each once.

    A place without runs is returned as it is, so that its reader reports what it lacks.
    """
    return list(dict.fromkeys(root for path in paths for root in (list(find_runs(path)) or [path])))


def run_ids(below: Path) -> list[str]:
    """Return the ids of all runs below a directory, newest first."""
    return sorted(_by_id(below), reverse=True)


def _by_id(below: Path) -> dict[str, list[Path]]:
    """Return the run directories below a directory by their ids; copies of a run share its id."""
    by_id: dict[str, list[Path]] = {}
    for root in find_runs(below):
        if RUN_ID.fullmatch(root.name):
            by_id.setdefault(root.name, []).append(root)
    return by_id


def _start_key(run_id: str, roots: list[Path]) -> tuple[str, int]:
    """Return a key that sorts runs by their start: an id has whole seconds, so its files' times break ties."""
    files = (root / name for root in roots for name in (JOURNAL, DOCUMENT))
    times = [file.stat().st_mtime_ns for file in files if file.is_file()]
    return run_id.rpartition("-")[0], max(times, default=0)


def _no_runs(below: Path) -> str:
    where = f"./{below}" if not below.is_absolute() and below.parts[:1] != ("..",) else str(below)
    return f"No runs yet in {where}. Play one: evopolicygym run acrobot; or look elsewhere: --runs DIR"


def _listing(roots: list[Path]) -> str:
    more = f"\n  and {len(roots) - MAX_LISTED} older" if len(roots) > MAX_LISTED else ""
    return "".join(f"\n  {root}" for root in reversed(roots[-MAX_LISTED:])) + more


def experiment_name(run: Path, identity: str) -> str:
    """Return the name of a run's experiment, which is that of the experiment's directory; empty if it is in none."""
    directory = experiment_directory_of(run)
    if directory is None or _identity(directory / EXPERIMENT_FILE) != identity:
        return ""
    return directory.name if is_of_same_owner(directory / EXPERIMENT_FILE, run) else ""


def experiment_directory_of(run: Path) -> Path | None:
    """Return the experiment's directory of a run at RUNS/EXPERIMENT/AGENT/TASK/RUN; None near the root.

    No other directory above a run is looked into: anyone may write to some of them, such as that of temporary files.
    """
    above = run.absolute().parents
    return above[EXPERIMENT_DEPTH] if len(above) > EXPERIMENT_DEPTH else None


def is_of_same_owner(file: Path, run: Path) -> bool:
    """Return whether a file above a run belongs to the owner of the run's directory, or to root."""
    try:
        return file.lstat().st_uid in {0, run.stat().st_uid}
    except OSError:
        return False


def is_secret_shared(identity: str) -> bool:
    """Return whether this machine knows that others hold an experiment's secret as well."""
    try:
        return bool(EXPERIMENT.fullmatch(identity)) and (state_directory() / identity / SHARED_MARK).exists()
    except (OSError, UsageError):
        return False


def _identity(file: Path) -> str | None:
    try:
        document = json.loads(regular_file.read(file, MAX_EXPERIMENT))
    except (OSError, RecordError, ValueError, RecursionError):
        return None
    return str(document.get("experiment")) if isinstance(document, dict) else None
