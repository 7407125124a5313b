"""A submission's feedback as files: hashed, made read-only, renamed into place, and nobody's to write to meanwhile.

What stands in it is not decided here but in ``judge/feedback.py``.
"""

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from evopolicygym.core import regular_file
from evopolicygym.records import durable
from evopolicygym.records.paths import RunPaths

READ_ONLY_FILE, READ_ONLY_DIRECTORY = 0o444, 0o555


def feedback_sha256(directory: Path, root: Path | None = None) -> str:
    """Return the SHA-256 over the names and contents of all files, in the order of their paths, in hexadecimal.

    Raises ``RecordError`` where anything but regular files and directories lies there, or a link below ``root`` leads
    there.
    """
    total = hashlib.sha256(b"evopolicygym feedback 1\n")
    for path in sorted(path for path, _ in regular_file.below(directory, root)):
        with regular_file.reader(path, directory) as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        total.update(f"{path.relative_to(directory).as_posix()}\0{digest}\n".encode())
    return total.hexdigest()


def log_sha256(path: Path, root: Path) -> str:
    """Return the SHA-256 of a log in hexadecimal; empty where there is none. Raises as ``feedback_sha256`` does."""
    try:
        with regular_file.reader(path, root) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return ""


def seal(directory: Path) -> str:
    """Have all files of a feedback, or of the hidden episodes, on disk, and return their ``feedback_sha256``."""
    durable.flush_tree(directory)
    return feedback_sha256(directory)


def publish(paths: RunPaths, submit_index: int) -> None:
    """Move a submission's feedback from staging to where the agent reads it, read-only; harmless when done before."""
    staged, published = paths.staged(submit_index), paths.published(submit_index)
    if staged.is_dir():
        for path in sorted(staged.rglob("*"), reverse=True):
            path.chmod(READ_ONLY_DIRECTORY if path.is_dir() else READ_ONLY_FILE)
        durable.rename(staged, published)
    if published.is_dir() and not published.is_symlink():  # which is none of ours
        published.chmod(READ_ONLY_DIRECTORY)


@contextmanager
def feedback_read_only(paths: RunPaths) -> Iterator[None]:
    """Keep feedback read-only while an agent is at work; then all directories of the run are their owner's again.

    A directory without write permission can't be emptied by who owns it, so a run that holds one can't be removed.
    Names that are links are never followed: an agent may have left them.
    """
    published = [path for path in sorted(paths.feedback.glob("*")) if path.is_dir() and not path.is_symlink()]
    for directory in published:
        _each_directory(directory, lambda _mode: READ_ONLY_DIRECTORY)
    try:
        yield
    finally:
        _each_directory(paths.root, lambda mode: mode | stat.S_IRWXU)


def _each_directory(root: Path, mode_of: Callable[[int], int]) -> None:
    """Set the mode of a directory and of all below it; what the system refuses is left as it is."""
    with suppress(OSError):
        _set(os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW), mode_of)


def _set(descriptor: int, mode_of: Callable[[int], int]) -> None:
    try:
        before = stat.S_IMODE(os.fstat(descriptor).st_mode)
        here = f"/proc/self/fd/{descriptor}"  # the directory itself, whatever has its name by now
        if mode_of(before) != before:
            os.chmod(here, mode_of(before))  # noqa: PTH101 - the descriptor's
        with os.scandir(here) as entries:
            names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        for name in names:
            with suppress(OSError):
                _set(os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=descriptor), mode_of)
    finally:
        os.close(descriptor)
