"""Letting the group of a run directory read it, once nobody plays the run.

While a process has the run open, only its owner can enter it: an agent may give what it leaves any mode, including
set-user-ID, so that another user who reached it could start it with the owner's rights. Afterwards no process of the
agent is left, and what it could write is closed before the run directory is opened to the group.
"""

import os
import stat
from contextlib import suppress

from evopolicygym.core.errors import StorageError
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import EXPERIMENT_FILE

GROUP = "group"
"""The value of the option ``readable`` that lets the group read."""
OWNER_ONLY, GROUP_DIRECTORY, GROUP_FILE = 0o700, 0o750, 0o640
AGENTS_OWN = ("workspace", "home", "sample-")
"""How names of the entries begin that an agent could write to; feedback lies in the workspace."""
ENTERED = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def close_to_group(paths: RunPaths) -> None:
    """Let only the owner enter a run directory."""
    paths.root.chmod(OWNER_ONLY)


def open_to_group(paths: RunPaths) -> None:
    """Let the group read what the judge wrote, whatever the umask; the run directory comes last.

    Raises ``StorageError`` if a mode can't be changed; the run is then closed to the group.
    """
    try:
        with os.scandir(paths.root) as entries:
            names = sorted(entry.name for entry in entries)
        at = os.open(paths.root, ENTERED)
        try:
            for name in names:
                _set_mode(name, at, closed=name.startswith(AGENTS_OWN), widens=name == paths.checkpoints.name)
        finally:
            os.close(at)
        _open_parents(paths)
        paths.root.chmod(GROUP_DIRECTORY)
    except OSError as error:
        raise StorageError(f"{paths.root} can't be opened to its group: {error.strerror}.") from error


def _set_mode(name: str, at: int, *, closed: bool, widens: bool) -> None:
    """Set the mode of an entry and of all below it; a closed one's alone. No link is followed.

    ``widens`` adds the group's rights to the others': policies in a sandbox read copies with the modes of checkpoints.
    """
    descriptor = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    try:
        status = os.fstat(descriptor)
        here = f"/proc/self/fd/{descriptor}"  # this entry, even if its name leads elsewhere by now
        is_directory = stat.S_ISDIR(status.st_mode)
        if closed and is_directory:
            os.chmod(here, OWNER_ONLY)  # noqa: PTH101 - the descriptor's
        elif is_directory:
            with os.scandir(here) as entries:
                below = sorted(entry.name for entry in entries)
            inside = os.open(name, ENTERED, dir_fd=at)
            try:
                for entry in below:
                    # Workers' scratch has links, and is removed unread.
                    _set_mode(entry, inside, closed=(name, entry) == ("staging", "workers"), widens=widens)
            finally:
                os.close(inside)
            os.chmod(here, _widened(status, GROUP_DIRECTORY) if widens else GROUP_DIRECTORY)  # noqa: PTH101
        elif stat.S_ISREG(status.st_mode) and status.st_nlink == 1:
            os.chmod(here, _widened(status, GROUP_FILE) if widens else GROUP_FILE)  # noqa: PTH101
    finally:
        os.close(descriptor)


def _widened(status: os.stat_result, mode: int) -> int:
    return stat.S_IMODE(status.st_mode) & 0o755 | mode


def _open_parents(paths: RunPaths) -> None:
    """Let the group enter the directories between an experiment and its run, and read the experiment's name."""
    task, agent, experiment = paths.root.absolute().parents[:3]
    if not (experiment / EXPERIMENT_FILE).is_file():
        return
    for path, mode in ((task, 0o050), (agent, 0o050), (experiment, 0o050), (experiment / EXPERIMENT_FILE, 0o040)):
        with suppress(PermissionError):  # another user's
            path.chmod(stat.S_IMODE(path.stat().st_mode) | mode)
