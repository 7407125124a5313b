"""The rollback guard: the length and hash of each run's event log, kept outside of the run directory.

It detects an older or diverged copy of a run, so that budget which was spent can't be spent again. An sqlite3 table in
the user's state directory, ``marks/marks.sqlite3``, has a row for each run that was played here: its high-water mark.
It doesn't protect against the user who owns it, and who could remove the run as well.
"""

import hashlib
import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import astuple, dataclass
from pathlib import Path

from evopolicygym.core.check_result import CheckResult
from evopolicygym.core.directories import not_kept, refuse_unwritable, state_directory
from evopolicygym.core.errors import EvoPolicyGymError, RecordError, UsageError
from evopolicygym.core.event import RunOpened
from evopolicygym.records import atomic
from evopolicygym.records.reader import RunRecord, read_run

FINDING = "high-water mark"
DATABASE, LOCK = "marks.sqlite3", "lock"
BUSY_S = 30.0
"""Seconds that a process waits for another to write its mark."""
_TABLE = """
    CREATE TABLE IF NOT EXISTS marks (
        experiment TEXT NOT NULL, run_id TEXT NOT NULL,
        lines INTEGER NOT NULL, last TEXT NOT NULL, spent INTEGER NOT NULL,
        PRIMARY KEY (experiment, run_id)
    )"""
_REPLAYS_TABLE = """
    CREATE TABLE IF NOT EXISTS replays (
        experiment TEXT NOT NULL, run_id TEXT NOT NULL, last TEXT NOT NULL, PRIMARY KEY (experiment, run_id, last)
    )"""
"""Records whose hidden episodes were played again on this machine, and were the same: each by the hash of its last
line, so that a copy is one of them only as long as nothing is added to it."""
_READ = "SELECT lines, last, spent FROM marks WHERE experiment = ? AND run_id = ?"
_WRITE = "INSERT OR REPLACE INTO marks (experiment, run_id, lines, last, spent) VALUES (?, ?, ?, ?, ?)"


@dataclass(frozen=True, slots=True)
class Mark:
    """A high-water mark: how far an event log had come."""

    lines: int
    last: str
    """The hash of the last line."""
    spent: int
    """Episodes charged."""

    def contradiction(self, hashes: Sequence[str], spent: int) -> str | None:
        """Return how an event log with these line hashes contradicts the mark; None if it continues from there."""
        held = f"it holds {len(hashes)} events, {spent} episodes charged"
        marked = f"it had {self.lines} events, {self.spent} episodes charged, when it was last played on this machine"
        if len(hashes) < self.lines:
            return f"the record goes back: {held}; {marked}"
        if hashes[self.lines - 1] != self.last:
            return f"the record differs from event {self.lines} or before: {held}; {marked}"
        return None


class RollbackGuard:
    """The mark of a run. Any process may read it; only one that has acquired it may advance it."""

    def __init__(self, directory: Path, experiment: str, run_id: str) -> None:
        self.path = directory / DATABASE
        self._run = (_text(experiment), _text(run_id))
        self._lock: int | None = None
        self._database: sqlite3.Connection | None = None

    def read(self) -> Mark | None:
        """Return the mark, or None if there is none; raise ``RecordError`` if the table is damaged."""
        if not self.path.exists():
            return None
        with closing(sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=rw", uri=True, timeout=BUSY_S)) as database:
            try:
                return self._mark(database)
            except sqlite3.OperationalError as error:
                if "no such table" in str(error):  # a process was killed while creating it
                    return None
                raise OSError(str(error)) from error

    def acquire(self, hashes: Sequence[str], spent: int) -> None:
        """Lock the mark, compare it with an event log, and advance it to the log's end; create it if there is none.

        Raises ``RecordError`` if the event log contradicts it or another process has it, ``StorageError`` if it can't
        be written.
        """
        try:
            offset = int(hashlib.sha256("\0".join(self._run).encode()).hexdigest()[:15], 16)
            self._lock = atomic.lock_byte(self.path.with_name(LOCK), offset, f"Another copy of run {self._run[1]}")
            self._database = sqlite3.connect(self.path, timeout=BUSY_S, check_same_thread=False)
            self._database.execute("PRAGMA journal_mode = TRUNCATE")
            self._database.execute(_TABLE)
            mark = self._mark(self._database)
        except (OSError, sqlite3.OperationalError) as error:
            raise self._storage_error(error) from error
        except sqlite3.DatabaseError as error:
            raise self._damaged() from error
        if mark and (contradiction := mark.contradiction(hashes, spent)):
            raise RecordError(
                f"Run {self._run[1]} can't be continued: {contradiction}. Use the copy that was played last, or start "
                f"a new run."
            )
        current = Mark(len(hashes), hashes[-1], spent)
        if mark != current:
            self.advance(current)

    def advance(self, mark: Mark) -> None:
        """Write a new mark to disk; raise ``StorageError`` if that fails."""
        assert self._database is not None  # noqa: S101 - it was acquired
        try:
            self._database.execute(_WRITE, (*self._run, *astuple(mark)))
            atomic.disk.commit(self._database)
        except (OSError, sqlite3.Error) as error:
            with suppress(sqlite3.Error):
                self._database.rollback()
            raise self._storage_error(error) from error

    def close(self) -> None:
        """Release the lock."""
        database, self._database = self._database, None
        if database:
            database.close()
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)

    def _mark(self, database: sqlite3.Connection) -> Mark | None:
        try:
            row = database.execute(_READ, self._run).fetchone()
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError as error:
            raise self._damaged() from error
        if row is None:
            return None
        lines, last, spent = row
        if not (isinstance(lines, int) and isinstance(last, str) and isinstance(spent, int) and lines > 0):
            raise self._damaged()
        return Mark(lines, last, spent)

    def _damaged(self) -> RecordError:
        return RecordError(
            f"{self.path} is damaged or was changed. If you remove it, runs are treated as if they were not started "
            f"here."
        )

    def _storage_error(self, error: Exception) -> Exception:
        shown = error if isinstance(error, OSError) else OSError(str(error))
        return not_kept(f"The high-water mark of run {self._run[1]}", shown)


def create_guard(opened: RunOpened) -> RollbackGuard:
    """Return the guard of a run of this user; raise ``StorageError`` if its directory can't be created."""
    directory = _directory()
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise not_kept("High-water marks", error) from error
    return RollbackGuard(directory, opened.experiment, opened.run_id)


def check_state_dir_writable() -> None:
    """Raise ``UsageError`` if this user's state directory isn't writable; call it before a run is created."""
    for directory in (state_directory(), _directory()):
        refuse_unwritable(directory)


def is_own_run(root: Path) -> bool:
    """Return whether this user played a run on this machine, and the run agrees with its mark.

    Also False if the run is broken or contradicts its mark, or the mark is damaged or unreadable. Raises ``UsageError``
    if ``root`` isn't a run directory.
    """
    with suppress(RecordError, OSError):
        return _contradiction(read_run(root)) == ""
    return False


def own_mark(experiment: str, run_id: str) -> Mark | None:
    """Return the mark of a run that this user played on this machine; None if there is none that can be read."""
    with suppress(EvoPolicyGymError, OSError, sqlite3.Error):
        return RollbackGuard(_directory(), experiment, run_id).read()
    return None


def is_replayed(experiment: str, run_id: str, last: str) -> bool:
    """Return whether the hidden episodes of a record, which ends with a line of this hash, were played again here."""
    query = "SELECT 1 FROM replays WHERE experiment = ? AND run_id = ? AND last = ?"
    with suppress(EvoPolicyGymError, OSError, sqlite3.Error):
        file = _directory() / DATABASE
        if file.exists():
            uri = f"{file.absolute().as_uri()}?mode=rw"
            with closing(sqlite3.connect(uri, uri=True, timeout=BUSY_S)) as database:
                return database.execute(query, (_text(experiment), _text(run_id), last)).fetchone() is not None
    return False


def keep_replayed(record: RunRecord) -> None:
    """Keep that the hidden episodes of a record were played again here, and were the same.

    Raises ``StorageError`` if that can't be written.
    """
    try:
        directory = _directory()
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with closing(sqlite3.connect(directory / DATABASE, timeout=BUSY_S)) as database, database:
            database.execute(_REPLAYS_TABLE)
            opened = record.state.opened
            row = _text(opened.experiment), _text(opened.run_id), record.hashes[-1]
            database.execute("INSERT OR IGNORE INTO replays VALUES (?, ?, ?)", row)
    except (OSError, sqlite3.Error) as error:
        raise not_kept("What was replayed", error if isinstance(error, OSError) else OSError(str(error))) from error


def has_mark(root: Path) -> bool:
    """Return whether a run has a mark of this user, so that it was started here.

    Raises ``RecordError`` if the run or the mark is damaged.
    """
    return _contradiction(read_run(root)) is not None


def mark_finding(record: RunRecord) -> CheckResult | None:
    """Return a finding on whether a record agrees with its run's mark; None if there is no mark."""
    try:
        state_directory()
    except UsageError as error:
        return CheckResult(FINDING, ok=True, detail=f"not checked: {error}")
    try:
        contradiction = _contradiction(record)
    except OSError as error:
        return CheckResult(FINDING, ok=True, detail=f"not checked: the state directory can't be read: {error}")
    except EvoPolicyGymError as error:
        return CheckResult(FINDING, ok=False, detail=str(error))
    if contradiction is None:
        return None
    return CheckResult(FINDING, not contradiction, contradiction or "the record goes on from where it was left here")


def _contradiction(record: RunRecord) -> str | None:
    """Return how a run contradicts its mark, "" if it doesn't, and None if there is no mark."""
    opened = record.state.opened
    mark = RollbackGuard(_directory(), opened.experiment, opened.run_id).read()
    if mark is None:
        return None
    contradiction = mark.contradiction(record.hashes, record.state.spent)
    if contradiction:  # another process may have continued the run since it was read
        record = read_run(record.paths.root)
        contradiction = mark.contradiction(record.hashes, record.state.spent)
    return contradiction or ""


def _directory() -> Path:
    return state_directory() / "marks"


def _text(name: str) -> str:
    """Return a name as sqlite3 can store it: a run from elsewhere may hold half of a surrogate pair."""
    return name.encode("utf-8", "backslashreplace").decode()
