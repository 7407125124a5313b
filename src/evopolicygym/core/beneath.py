"""Changes beneath a directory that untrusted code may write: by descriptors, without following links.

Whoever holds a directory's descriptor reaches nothing outside of it, whatever has been put in place of a name below.
``core/regular_file.py`` reads such files.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from evopolicygym.core.errors import RecordError
from evopolicygym.judge_client.workspace_files import DIRECTORY, NEW_FILE, remove


@contextmanager
def open_directory(path: Path | str, at: int | None = None, *, create: bool = False) -> Iterator[int]:
    """Yield a directory's descriptor, and create the directory if needed; raise ``OSError`` for a link or a file."""
    if create:
        with suppress(FileExistsError):
            os.mkdir(path, dir_fd=at)
    descriptor = os.open(path, DIRECTORY, dir_fd=at)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def write_file(name: str, content: bytes, at: int, mode: int = 0o644) -> None:
    """Write a new file into a directory, in place of whatever had its name."""
    remove(name, at)
    with os.fdopen(os.open(name, NEW_FILE, mode, dir_fd=at), "wb") as file:
        file.write(content)


def replace_content(directory: Path, files: Mapping[str, bytes]) -> None:
    """Replace all that a directory contains by files, given by their paths in it.

    Raises ``OSError`` if the directory is a link or no directory, ``RecordError`` for a path that leads out of it.
    """
    for name in files:
        if not Path(name).parts or Path(name).is_absolute() or ".." in Path(name).parts:
            raise RecordError(f"Invalid path {name!r}: expected a path below {directory.name}/.")
    with open_directory(directory) as at:
        for entry in os.listdir(at):  # noqa: PTH208 - of a descriptor
            remove(entry, at)
        for name, content in files.items():
            _write_below(Path(name).parts, content, at)


def _write_below(parts: tuple[str, ...], content: bytes, at: int) -> None:
    if len(parts) == 1:
        write_file(parts[0], content, at)
        return
    with open_directory(parts[0], at, create=True) as below:
        _write_below(parts[1:], content, below)
