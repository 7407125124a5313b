"""Directories for the layers of overlays: each belongs to the process that made it, and goes with it.

They never lie in a run's directory: whoever copies that would read from device files without end. The process that
made one holds a lock on it. So the layers of a process that was killed are known by having no lock, and whoever makes
layers next, or sees a worker end, removes them.
"""

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

PLACES = ("/dev/shm", "/tmp")  # noqa: S108 - a private directory is made in it
"""Where layers can lie: on a disk that may hide files."""
PREFIX = "evopolicygym-layers-"
_made = set["Layers"]()


class Layers:
    """A new directory for layers, in the first place that may hide files; raises ``OSError`` where there is none."""

    def __init__(self) -> None:
        """Make the directory, and remove those of processes that are gone."""
        remove_abandoned_layers()
        place = best_place()
        if not _uses(place):
            raise OSError(f"files can be hidden in none of {', '.join(PLACES)}")
        self.directory = Path()
        self._lock = -1
        while self._lock < 0:
            self.directory = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
            with suppress(FileNotFoundError):  # another process took it for abandoned before the lock
                self._lock = _locked(self.directory, fcntl.LOCK_EX)
        self.directory.chmod(0o711)
        self._count = 0
        _made.add(self)

    def new(self) -> Path:
        """Return a new directory in it that anybody may enter."""
        self._count += 1
        layer = self.directory / str(self._count)
        layer.mkdir()
        layer.chmod(0o755)
        return layer

    def close(self) -> None:
        """Remove it with all that is in it; a sandbox that still sees it goes on seeing its files."""
        if self in _made:
            _made.remove(self)
            shutil.rmtree(self.directory, ignore_errors=True)
            os.close(self._lock)


def remove_layers() -> None:
    """Remove all layers of this process, which ends at once."""
    for layers in tuple(_made):
        layers.close()


def remove_abandoned_layers() -> None:
    """Remove the layers of this user's processes that are gone, which were killed."""
    for place in PLACES:
        for directory in _layers_in(place):
            try:
                lock = _locked(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:  # somebody has it, or it is gone
                continue
            shutil.rmtree(directory, ignore_errors=True)
            os.close(lock)


def _layers_in(place: str) -> Iterator[Path]:
    with suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX) and entry.stat(follow_symlinks=False).st_uid == os.geteuid():
                yield Path(entry.path)


def _locked(directory: Path, how: int) -> int:
    """Return a descriptor that locks a directory; raise ``OSError`` where another has it or it was removed."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, how)
        directory.lstat()
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def best_place() -> str:
    """Return where layers lie: the first place with room for device files, else the first that may hide files."""
    return max(PLACES, key=_uses)


def holds_devices(place: str) -> bool:
    """Return whether this process can make device files in a place that can be opened."""
    return _uses(place) > 1


@cache
def _uses(place: str) -> int:
    """Return how much a place is good for: 0 for nothing, 1 where a layer can hide something, 2 for devices too."""
    try:
        with tempfile.TemporaryDirectory(dir=place) as tried:
            os.mknod(Path(tried, "hidden"), stat.S_IFCHR, 0)
            try:
                os.mknod(Path(tried, "null"), stat.S_IFCHR, Path(os.devnull).stat().st_rdev)
                os.close(os.open(Path(tried, "null"), os.O_RDONLY))
            except OSError:
                return 1
    except OSError:
        return 0
    return 2
