"""What diagnostics measured of runs, kept between processes in ``$XDG_CACHE_HOME/evopolicygym/measurements.sqlite3``.

A cache that anyone may remove at any time. An entry is used only while every file that it was measured from, the code
of this package and the version of Python are the same (``records/file_stamps.py``).
An index that is damaged, or can't be read or written, is no error:
it is removed, or the run is measured again.
"""

import hashlib
import os
import pickle
import sqlite3
from contextlib import suppress
from dataclasses import dataclass, field, is_dataclass
from enum import Enum
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any, Self

from evopolicygym.analysis.diagnostic import Group
from evopolicygym.core import directories
from evopolicygym.core.errors import UsageError
from evopolicygym.records.file_stamps import code_key, settled_key
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.release import is_release

DATABASE = "measurements.sqlite3"
MAX_ENTRIES = 200_000
"""Entries, about 4 kB each; with more, the index starts afresh."""
BATCH = 500
"""Entries that are committed together."""
BUSY_S = 2.0
"""Seconds to wait for another process; then nothing more is kept."""
_TABLE = "CREATE TABLE IF NOT EXISTS runs (root TEXT PRIMARY KEY, key BLOB, digest BLOB, content BLOB)"
_READ = "SELECT key, digest, content FROM runs WHERE root = ?"
_WRITE = "INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?)"
_DAMAGED = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_ERROR")
"""Names of errors: the last is of a table with other columns."""
_OWN = "evopolicygym."


@dataclass(slots=True)
class RunMeasurements:
    """What was measured of a finished run."""

    group: Group
    facts: str
    """All that distinguishes its results from those of other runs."""
    values: dict[str, Any] = field(default_factory=dict)
    """Measurements by diagnostic's name."""


class MeasurementIndex:
    """Measurements by run directory. Every method does nothing, or returns None, where the index can't be used."""

    def __init__(self) -> None:
        self._file = _database_file()
        self._database: sqlite3.Connection | None = None
        self._pending = 0

    def __enter__(self) -> Self:
        if self._file and self._file.exists():
            self._open(self._file)
        return self

    def __exit__(self, *_: object) -> None:
        database, self._database = self._database, None
        if database:
            with suppress(sqlite3.Error):
                database.commit()
            with suppress(sqlite3.Error):
                database.close()

    def read(self, root: Path, key: bytes | None) -> RunMeasurements | None:
        """Return what was measured of a run whose files have this key."""
        if self._database is None or key is None:
            return None
        try:
            row = self._database.execute(_READ, (_name(root),)).fetchone()
        except sqlite3.Error as error:
            self._fail(error)
            return None
        if row is None or row[0] != key or not isinstance(row[2], bytes) or row[1] != _digest(root, key, row[2]):
            return None
        try:
            measurements = _Unpickler(BytesIO(row[2])).load()
        except Exception:  # noqa: BLE001 - whatever is in the index, the run can be measured
            return None
        return measurements if isinstance(measurements, RunMeasurements) else None

    def write(self, root: Path, key: bytes | None, measurements: RunMeasurements) -> None:
        """Keep what was measured of a run whose files had this key before they were read."""
        if key is None or self._file is None or (self._database is None and not self._create(self._file)):
            return
        assert self._database is not None  # noqa: S101 - for the type checker: it was created
        content = _pickled(measurements)
        try:
            self._database.execute(_WRITE, (_name(root), key, _digest(root, key, content), content))
            self._pending += 1
            if self._pending % BATCH == 0:
                self._database.commit()
        except sqlite3.Error as error:
            self._fail(error)

    def _create(self, file: Path) -> bool:
        try:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            self._file = None
            return False
        self._open(file)
        return self._database is not None

    def _open(self, file: Path) -> None:
        try:
            self._database = sqlite3.connect(file, timeout=BUSY_S)
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = OFF")
            self._database.execute(_TABLE)
            (entries,) = self._database.execute("SELECT count(*) FROM runs").fetchone()
            if entries > MAX_ENTRIES:
                self._database.execute("DELETE FROM runs")
                self._database.commit()
        except OSError:
            self._give_up()
        except sqlite3.Error as error:
            self._fail(error)

    def _fail(self, error: sqlite3.Error) -> None:
        """Remove an index that is damaged; go on without one that is full, read-only, or held by another process."""
        if error.sqlite_errorname.startswith(_DAMAGED):
            self._remove()
        else:
            self._give_up()

    def _give_up(self) -> None:
        """Go on without the index."""
        database, self._database, self._file = self._database, None, None
        if database:
            with suppress(sqlite3.Error):
                database.close()

    def _remove(self) -> None:
        """Remove a damaged index; the next process starts another."""
        file = self._file
        self._give_up()
        for suffix in ("", "-wal", "-shm"):
            if file:
                with suppress(OSError):
                    file.with_name(file.name + suffix).unlink(missing_ok=True)


def run_key(root: Path) -> bytes | None:
    """Return what identifies the files that a run is measured from, and this code; None if they can't be relied on."""
    if is_release(root):  # measured from its feedback, too
        return None
    paths = RunPaths(root)
    return settled_key((paths.journal, paths.document, paths.post_hoc, paths.checkpoints), code_key())


def is_kept(measure: object) -> bool:
    """Return whether a diagnostic's measurements may be kept: the code of other distributions may change unnoticed."""
    return str(getattr(measure, "__module__", "")).startswith(_OWN)


def _database_file() -> Path | None:
    with suppress(UsageError):
        return directories.cache_directory() / DATABASE
    return None


def _name(root: Path) -> str:
    return os.fsencode(os.path.realpath(root)).hex()


def _digest(root: Path, key: bytes, content: bytes) -> bytes:
    return hashlib.blake2b(_name(root).encode() + key + content, digest_size=32).digest()


class _Pickler(pickle.Pickler):
    """Writes members of enumerations by their values; by default they name ``getattr``."""

    def reducer_override(self, obj: object) -> Any:  # noqa: ANN401 - as pickle has it
        return (type(obj), (obj.value,)) if isinstance(obj, Enum) else NotImplemented


def _pickled(measurements: RunMeasurements) -> bytes:
    content = BytesIO()
    _Pickler(content, pickle.HIGHEST_PROTOCOL).dump(measurements)
    return content.getvalue()


class _Unpickler(pickle.Unpickler):
    """Reads nothing but this package's dataclasses and enumerations, so that an index can't name other code."""

    def find_class(self, module: str, name: str) -> Any:  # noqa: ANN401 - a class
        if module.startswith(_OWN):
            value = getattr(import_module(module), name, None)
            if isinstance(value, type) and (is_dataclass(value) or issubclass(value, Enum)):
                return value
        raise pickle.UnpicklingError(f"{module}.{name} has no place in an index.")
