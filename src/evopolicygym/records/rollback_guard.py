"""The rollback guard: how far each run's journal has come, kept outside of the run's directory.

An older copy of a run, or a copy that went another way, is found by it, and so is never played on with a budget that
was spent already. One sqlite3 table in the user's state directory, ``marks/marks.sqlite3``, has a row for each run
that was played here: its high-water mark. It doesn't protect against its owner, who could remove the run as well.
"""

import hashlib
import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import astuple, dataclass
from pathlib import Path

from evopolicygym.core.errors import EvoPolicyGymError, RecordError, UsageError
from evopolicygym.core.event import RunOpened
from evopolicygym.core.finding import Finding
from evopolicygym.core.places import not_kept, refuse_unwritable, state_directory
from evopolicygym.records import durable
from evopolicygym.records.lock import locked_byte
from evopolicygym.records.reader import read_run

WHAT = "high-water mark"
DATABASE, LOCK = "marks.sqlite3", "lock"
BUSY_S = 30.0
"""Seconds that a process waits while another writes its mark."""
_TABLE = """
    CREATE TABLE IF NOT EXISTS marks (
        experiment TEXT NOT NULL, run_id TEXT NOT NULL,
        lines INTEGER NOT NULL, last TEXT NOT NULL, spent INTEGER NOT NULL,
        PRIMARY KEY (experiment, run_id)
    )"""
_READ = "SELECT lines, last, spent FROM marks WHERE experiment = ? AND run_id = ?"
_WRITE = "INSERT OR REPLACE INTO marks (experiment, run_id, lines, last, spent) VALUES (?, ?, ?, ?, ?)"


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a journal had come."""

    lines: int
    last: str
    """The hash of the last line."""
    spent: int
    """Episodes charged."""

    def contradiction(self, hashes: Sequence[str], spent: int) -> str | None:
        """Return how a journal of lines with these hashes contradicts the mark; None where it goes on from there."""
        held = f"it holds {len(hashes)} events, {spent} episodes charged"
        marked = f"it had {self.lines} events, {self.spent} episodes charged, when it was last played on this machine"
        if len(hashes) < self.lines:
            return f"the record goes back: {held}; {marked}"
        if hashes[self.lines - 1] != self.last:
            return f"the record is another one from event {self.lines} or before: {held}; {marked}"
        return None


class RollbackGuard:
    """The mark of one run. Anyone may read it; who advances it has taken it before, which locks it."""

    def __init__(self, directory: Path, experiment: str, run_id: str) -> None:
        self.path = directory / DATABASE
        self._run = (_text(experiment), _text(run_id))
        self._lock: int | None = None
        self._database: sqlite3.Connection | None = None

    def read(self) -> Mark | None:
        """Return the mark, None where there is none; raise ``RecordError`` where the table is damaged."""
        if not self.path.exists():
            return None
        with closing(sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=rw", uri=True, timeout=BUSY_S)) as database:
            try:
                return self._mark(database)
            except sqlite3.OperationalError as error:
                if "no such table" in str(error):  # a process was killed over making it
                    return None
                raise OSError(str(error)) from error

    def take(self, hashes: Sequence[str], spent: int) -> None:
        """Lock the mark, hold it against a journal and bring it up to there; make it where there is none yet.

        Raises ``RecordError`` where the journal contradicts it or another process has it, ``StorageError`` where it
        can't be written.
        """
        try:
            place = int(hashlib.sha256("\0".join(self._run).encode()).hexdigest()[:15], 16)
            self._lock = locked_byte(self.path.with_name(LOCK), place, f"Another copy of run {self._run[1]}")
            self._database = sqlite3.connect(self.path, timeout=BUSY_S, check_same_thread=False)
            self._database.execute("PRAGMA journal_mode = TRUNCATE")
            self._database.execute(_TABLE)
            mark = self._mark(self._database)
        except (OSError, sqlite3.OperationalError) as error:
            raise self._not_kept(error) from error
        except sqlite3.DatabaseError as error:
            raise self._changed() from error
        if mark and (contradiction := mark.contradiction(hashes, spent)):
            raise RecordError(
                f"Run {self._run[1]} can't be played on: {contradiction}. What works: the copy of the run that was "
                f"played last, or a new run."
            )
        reached = Mark(len(hashes), hashes[-1], spent)
        if mark != reached:
            self.advance(reached)

    def advance(self, mark: Mark) -> None:
        """Have the mark say, on disk, that the journal has come so far; raise ``StorageError`` where it can't."""
        assert self._database is not None  # noqa: S101 - it was taken
        try:
            self._database.execute(_WRITE, (*self._run, *astuple(mark)))
            durable.disk.commit(self._database)
        except (OSError, sqlite3.Error) as error:
            with suppress(sqlite3.Error):
                self._database.rollback()
            raise self._not_kept(error) from error

    def close(self) -> None:
        """Give up the lock."""
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
            raise self._changed() from error
        if row is None:
            return None
        lines, last, spent = row
        if not (isinstance(lines, int) and isinstance(last, str) and isinstance(spent, int) and lines > 0):
            raise self._changed()
        return Mark(lines, last, spent)

    def _changed(self) -> RecordError:
        return RecordError(
            f"{self.path} is not the table of this user's high-water marks: it was changed. Without that file every "
            f"run is taken as one that was not begun here."
        )

    def _not_kept(self, error: Exception) -> Exception:
        shown = error if isinstance(error, OSError) else OSError(str(error))
        return not_kept(f"The high-water mark of run {self._run[1]}", shown)


def guard_of(opened: RunOpened) -> RollbackGuard:
    """Return the guard of a run of this user; raise ``StorageError`` where nothing can be kept."""
    directory = _directory()
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise not_kept("High-water marks", error) from error
    return RollbackGuard(directory, opened.experiment, opened.run_id)


def check_state_dir_writable() -> None:
    """Raise ``UsageError`` where this user's state directory can't keep what a run needs; asked before one is begun."""
    for directory in (state_directory(), _directory()):
        refuse_unwritable(directory)


def is_known(root: Path) -> bool:
    """Return whether a record is of a run that this user played on this machine, and goes on from where it was left.

    False too where the record is broken, goes back or is another one, and where its mark is damaged or can't be read.
    Raises ``UsageError`` where there is no run.
    """
    with suppress(RecordError, OSError):
        return _contradiction(root) == ""
    return False


def is_marked(root: Path) -> bool:
    """Return whether a run bears a mark of this user: then it was begun here, and whoever plays on holds it against it.

    Raises what ``is_known`` returns False for, where the record or the mark is damaged.
    """
    return _contradiction(root) is not None


def mark_finding(root: Path) -> Finding | None:
    """Return what the mark of a run says of its record; None where there is no mark."""
    try:
        state_directory()
    except UsageError as error:
        return Finding(WHAT, ok=True, detail=f"not checked: {error}")
    try:
        contradiction = _contradiction(root)
    except OSError as error:
        return Finding(WHAT, ok=True, detail=f"not checked: the state directory can't be read: {error}")
    except EvoPolicyGymError as error:
        return Finding(WHAT, ok=False, detail=str(error))
    if contradiction is None:
        return None
    return Finding(WHAT, not contradiction, contradiction or "the record goes on from where it was left here")


def _contradiction(root: Path) -> str | None:
    """Return how a record contradicts its mark, "" where it doesn't, and None where there is no mark."""
    opened = read_run(root).state.opened
    mark = RollbackGuard(_directory(), opened.experiment, opened.run_id).read()
    if mark is None:
        return None
    record = read_run(root)  # after the mark: it may be played on at this moment
    return mark.contradiction(record.hashes, record.state.spent) or ""


def _directory() -> Path:
    return state_directory() / "marks"


def _text(name: str) -> str:
    """Return a name as sqlite3 can hold it: a record from elsewhere may hold half of a surrogate pair."""
    return name.encode("utf-8", "backslashreplace").decode()
