"""A submission's feedback as files: hashed, renamed into place, and kept read-only. The judge decides its content."""

import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from evopolicygym.core import regular_file
from evopolicygym.core.errors import RecordError
from evopolicygym.records import atomic
from evopolicygym.records.paths import SUMMARY, RunPaths

MOST_SUMMARY = 16 << 20
"""Bytes of a ``summary.json`` that is read."""
READ_ONLY_FILE, READ_ONLY_DIRECTORY = 0o444, 0o555


def feedback_sha256(directory: Path, root: Path | None = None) -> str:
    """Return the SHA-256 in hexadecimal over the names and contents of all files, in the order of their paths.

    Raises ``RecordError`` if the directory has anything but regular files and directories, or if a link below ``root``
    leads to it.
    """
    total = hashlib.sha256(b"evopolicygym feedback 1\n")
    for path in sorted(path for path, _ in regular_file.below(directory, root)):
        with regular_file.reader(path, directory) as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        total.update(f"{path.relative_to(directory).as_posix()}\0{digest}\n".encode())
    return total.hexdigest()


def log_sha256(path: Path, root: Path) -> str:
    """Return the SHA-256 of a log in hexadecimal, empty if it doesn't exist. Raises as ``feedback_sha256`` does."""
    try:
        with regular_file.reader(path, root) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return ""


def read_summary(paths: RunPaths, submit_index: int) -> Any:  # noqa: ANN401 - any JSON value
    """Return a submission's ``summary.json``; None if it is not there. Raises ``RecordError`` if it is damaged."""
    file = paths.published_feedback(submit_index) / SUMMARY
    try:
        return json.loads(regular_file.read(file, MOST_SUMMARY, paths.root), parse_constant=str)
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{file} is not JSON.") from error


def seal(directory: Path) -> str:
    """Flush the files of a feedback, or of the hidden episodes, to disk, and return their ``feedback_sha256``."""
    atomic.flush_tree(directory)
    return feedback_sha256(directory)


def publish(paths: RunPaths, submit_index: int) -> None:
    """Move a submission's feedback from staging to the workspace, read-only; do nothing if that was done before."""
    staged, published = paths.staged_feedback(submit_index), paths.published_feedback(submit_index)
    if staged.is_dir():
        for path in sorted(staged.rglob("*"), reverse=True):
            path.chmod(READ_ONLY_DIRECTORY if path.is_dir() else READ_ONLY_FILE)
        atomic.rename(staged, published)
    if published.is_dir() and not published.is_symlink():  # a link was not published here
        published.chmod(READ_ONLY_DIRECTORY)


@contextmanager
def feedback_read_only(paths: RunPaths) -> Iterator[None]:
    """Keep feedback read-only while an agent works; then give the owner write permission to all run directories.

    Without it, the owner couldn't remove the run. Links are never followed: an agent may have created them.
    """
    directories = [path for path in sorted(paths.feedback.glob("*")) if path.is_dir() and not path.is_symlink()]
    for directory in directories:
        _change_modes(directory, lambda _mode: READ_ONLY_DIRECTORY)
    try:
        yield
    finally:
        _change_modes(paths.root, lambda mode: mode | stat.S_IRWXU)


def _change_modes(root: Path, mode_of: Callable[[int], int]) -> None:
    """Change the mode of a directory and of all directories below it; ignore errors."""
    with suppress(OSError):
        _change_mode(os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW), mode_of)


def _change_mode(descriptor: int, mode_of: Callable[[int], int]) -> None:
    try:
        before = stat.S_IMODE(os.fstat(descriptor).st_mode)
        here = f"/proc/self/fd/{descriptor}"  # this directory, even if its name leads elsewhere by now
        if mode_of(before) != before:
            os.chmod(here, mode_of(before))  # noqa: PTH101 - the descriptor's
        with os.scandir(here) as entries:
            names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        for name in names:
            with suppress(OSError):
                _change_mode(os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=descriptor), mode_of)
    finally:
        os.close(descriptor)
