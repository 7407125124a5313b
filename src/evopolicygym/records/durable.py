"""Writing so that a crash at any moment leaves the old or the new, never a half."""

import os
from pathlib import Path


def write_text(path: Path, text: str) -> None:
    """Write a whole file beside, flush it to disk, and rename it into place."""
    beside = path.with_name(path.name + ".part")
    with beside.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    rename(beside, path)


def rename(source: Path, target: Path) -> None:
    """Rename within one file system, and flush the directories that the names stand in."""
    source.rename(target)
    flush_directory(target.parent)
    if source.parent != target.parent:
        flush_directory(source.parent)


def flush_directory(path: Path) -> None:
    """Flush a directory's names to disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
