"""Who may write into the directories of a run: nobody into feedback while an agent is at work, then its owner again.

A directory without write permission can't be emptied by who owns it, so a run that holds one can't be removed.
Names that are links are never followed: an agent may have left them.
"""

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from evopolicygym.records.feedback import READ_ONLY_DIRECTORY
from evopolicygym.records.paths import RunPaths


@contextmanager
def feedback_read_only(paths: RunPaths) -> Iterator[None]:
    """Keep feedback read-only meanwhile; afterwards, all directories of the run can be written to by their owner."""
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
