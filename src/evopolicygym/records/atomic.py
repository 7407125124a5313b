"""Crash-safe file writes and file locks: after a crash at any moment, a file is either the old or the new version.

Every write that a run's integrity depends on goes through ``disk``: event-log lines, flushes, renames.
"""

import fcntl
import os
import sqlite3
import struct
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from evopolicygym.core import regular_file
from evopolicygym.core.errors import RecordError

FLUSH_THREADS = 16
"""Files flushed together share a commit of the file system: 66 files take 10 ms, and 250 ms one after another."""
TEMP_SUFFIX = "part"
"""The suffix of a file that has not been renamed into place yet."""


class Disk:
    """The system calls that put a run on disk. Tests replace it to inject faults."""

    def write(self, descriptor: int, content: bytes, offset: int) -> int:
        """Write at an offset and return how many bytes were written."""
        return os.pwrite(descriptor, content, offset)

    def truncate(self, descriptor: int, size: int) -> None:
        """Truncate a file to ``size`` bytes."""
        os.ftruncate(descriptor, size)

    def flush(self, descriptor: int) -> None:
        """Flush a file to disk."""
        os.fsync(descriptor)

    def commit(self, database: sqlite3.Connection) -> None:
        """Commit a database's open transaction to disk."""
        database.commit()

    def rename(self, source: Path, target: Path) -> None:
        """Rename a path within one file system."""
        source.rename(target)

    def link(self, source: Path, target: Path) -> None:
        """Give a file a second name, which must not exist yet."""
        target.hardlink_to(source)


disk = Disk()
"""The instance in use."""


def write_all(descriptor: int, content: bytes, offset: int) -> None:
    """Write all bytes at an offset, in as many calls as the disk needs."""
    done = 0
    while done < len(content):
        done += disk.write(descriptor, content[done:], offset + done)


def write_text(path: Path, text: str) -> None:
    """Replace a file: write a temporary file, flush it to disk, and rename it into place."""
    temporary = temp_path(path)
    try:
        _write_flushed(temporary, text)
        rename(temporary, path)
    except BaseException:
        _remove(temporary)
        raise


def create_text(path: Path, text: str) -> None:
    """Create a file as ``write_text`` does; raise ``FileExistsError`` if another process has created it meanwhile."""
    temporary = temp_path(path)
    try:
        _write_flushed(temporary, text)
        disk.link(temporary, path)
    finally:
        _remove(temporary)
    flush(path.parent)


def remove_temp_files(path: Path) -> None:
    """Remove the temporary files that crashes left for a path; no other process may be writing it."""
    for temporary in path.parent.glob(f"{path.name}.*.{TEMP_SUFFIX}"):
        _remove(temporary)


def rename(source: Path, target: Path) -> None:
    """Rename a path within one file system, and flush the directories that hold the names."""
    disk.rename(source, target)
    flush(target.parent)
    if source.parent != target.parent:
        flush(source.parent)


def flush(path: Path) -> None:
    """Flush a file's content or a directory's names to disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        disk.flush(descriptor)
    finally:
        os.close(descriptor)


def flush_tree(directory: Path) -> None:
    """Flush a directory and everything below it."""
    with ThreadPoolExecutor(FLUSH_THREADS) as pool:
        list(pool.map(flush, (directory, *directory.rglob("*"))))


def temp_path(path: Path) -> Path:
    """Return the path at which this process writes a file before it renames it into place."""
    return path.with_name(f"{path.name}.{os.getpid()}.{TEMP_SUFFIX}")


def _write_flushed(path: Path, text: str) -> None:
    _remove(path)  # a link with this name must not be written through
    with path.open("x", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        disk.flush(file.fileno())


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink(missing_ok=True)


def lock_file(path: Path, owner: str, *, shared: bool = False, wait: bool = False) -> int:
    """Lock a file and return its descriptor; the system unlocks it when the last process that holds it ends.

    Any number of processes can hold a ``shared`` lock. Raises ``RecordError``, which names ``owner``, if another
    process holds the lock and ``wait`` isn't set, or the path isn't a regular file.
    """
    descriptor = regular_file.descriptor(path, flags=os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError as error:
        os.close(descriptor)
        raise _already_locked(owner) from error
    return descriptor


def lock_byte(path: Path, offset: int, owner: str) -> int:
    """Lock one byte of a file, which may lie past its end, and return the descriptor; raise as ``lock_file`` does.

    The lock belongs to the open file description, so it conflicts with other locks of the same process too.
    """
    descriptor = regular_file.descriptor(path, flags=os.O_RDWR | os.O_CREAT)
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, offset, 1, 0))
    except BlockingIOError as error:
        os.close(descriptor)
        raise _already_locked(owner) from error
    return descriptor


def is_locked(path: Path) -> bool:
    """Return whether a process holds the lock on a file; False if the path isn't a readable regular file."""
    try:
        descriptor = regular_file.descriptor(path)
    except (OSError, RecordError):
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _already_locked(owner: str) -> RecordError:
    return RecordError(f"{owner} is being played by another process; wait for it or stop it.")
