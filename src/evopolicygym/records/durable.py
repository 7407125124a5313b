"""Writing so that a crash at any moment leaves the old or the new, never a half.

Every write that a record's soundness hangs on goes through ``disk``: the journal's lines, flushes, renames.
"""

import os
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

FLUSHED_AT_ONCE = 16
"""Files flushed together share a file system's commit: 66 files take 10 ms so, and 250 ms one after another."""
PART = "part"
"""How the name of a file ends that is not yet in place."""


class Disk:
    """The system's calls by which a record gets on disk, and nothing besides."""

    def write(self, descriptor: int, content: bytes, offset: int) -> int:
        """Write at an offset; return how many bytes were taken."""
        return os.pwrite(descriptor, content, offset)

    def truncate(self, descriptor: int, size: int) -> None:
        """Cut a file off."""
        os.ftruncate(descriptor, size)

    def flush(self, descriptor: int) -> None:
        """Have on disk what was written."""
        os.fsync(descriptor)

    def commit(self, database: sqlite3.Connection) -> None:
        """Have a database's open transaction on disk."""
        database.commit()

    def rename(self, source: Path, target: Path) -> None:
        """Move a name within one file system."""
        source.rename(target)

    def link(self, source: Path, target: Path) -> None:
        """Give a file one more name, which must be new."""
        target.hardlink_to(source)


disk = Disk()
"""The one in use."""


def write_whole(descriptor: int, content: bytes, offset: int) -> None:
    """Write all of it at an offset, however little the disk takes at a time."""
    written = 0
    while written < len(content):
        written += disk.write(descriptor, content[written:], offset + written)


def write_text(path: Path, text: str) -> None:
    """Write a whole file beside, flush it to disk, and rename it into place."""
    part = temp_path(path)
    try:
        _write_flushed(part, text)
        rename(part, path)
    except BaseException:
        _forget(part)
        raise


def create_text(path: Path, text: str) -> None:
    """Write a whole file as ``write_text`` does; raise ``FileExistsError`` where somebody else has made it by then."""
    part = temp_path(path)
    try:
        _write_flushed(part, text)
        disk.link(part, path)
    finally:
        _forget(part)
    flush(path.parent)


def clear_strays(path: Path) -> None:
    """Remove what crashes left beside a file that nobody else writes now."""
    for stray in path.parent.glob(f"{path.name}.*.{PART}"):
        _forget(stray)


def rename(source: Path, target: Path) -> None:
    """Rename within one file system, and flush the directories that the names stand in."""
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
    """Flush a directory with all that lies below it."""
    with ThreadPoolExecutor(FLUSHED_AT_ONCE) as pool:
        list(pool.map(flush, (directory, *directory.rglob("*"))))


def temp_path(path: Path) -> Path:
    """Return where this process writes a file before it is renamed into place."""
    return path.with_name(f"{path.name}.{os.getpid()}.{PART}")


def _write_flushed(path: Path, text: str) -> None:
    _forget(path)  # whatever lies there: a link under this name is not written through
    with path.open("x", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        disk.flush(file.fileno())


def _forget(path: Path) -> None:
    with suppress(OSError):
        path.unlink(missing_ok=True)
