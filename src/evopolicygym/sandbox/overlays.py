"""Files that a sandbox sees as files of its own: an overlay for each, and copies where an overlay can't be.

A file that is mounted into two sandboxes is one file to the kernel: locks, leases and watches on it, its number, and
which of its pages are in memory are the same for both. In an overlay a file of the machine is another file, but for its
pages, which ``keep_in_memory`` keeps there. What a sandbox must not see of a directory is hidden by a layer above it.

Layers never lie in a run's directory: a copy of it would read from device files without end. The process that
made a directory for layers holds a lock on it. So the layers of a process that was killed are known by having no lock;
the next process that makes layers, or sees a worker end, removes them.
"""

import ctypes
import fcntl
import os
import resource
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import cache
from itertools import pairwise
from pathlib import Path

from evopolicygym.core.errors import SandboxError
from evopolicygym.sandbox.bwrap import bwrap, namespaces, sandbox_user

DEVICES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9)}
PLACES = ("/dev/shm", "/tmp")  # noqa: S108 - a private directory is made in it
"""Where layers can lie: on a disk that may hide files."""
PREFIX = "evopolicygym-layers-"
_made = set["Layers"]()
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
READ, SHARED, LOCKED, POPULATE = 0x1, 0x1, 0x2000, 0x8000
CAP_IPC_LOCK = 14
FAILED = ctypes.c_void_p(-1).value
_mapped_bytes = dict[tuple[int, int], int]()
"""The bytes of each file that is kept, by its device and number."""


class Layers:
    """A new directory for layers, in the first place that may hide files; raises ``OSError`` where there is none."""

    def __init__(self) -> None:
        """Make the directory, and remove those of processes that are gone."""
        remove_abandoned_layers()
        place = best_place()
        if not _usability(place):
            raise OSError(f"files can be hidden in none of {', '.join(PLACES)}")
        self.directory = Path()
        self._lock = -1
        while self._lock < 0:
            self.directory = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
            with suppress(FileNotFoundError):  # another process took it for abandoned before the lock
                self._lock = _lock_directory(self.directory, fcntl.LOCK_EX)
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
                lock = _lock_directory(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:  # somebody has it, or it is gone
                continue
            shutil.rmtree(directory, ignore_errors=True)
            os.close(lock)


def _layers_in(place: str) -> Iterator[Path]:
    with suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX) and entry.stat(follow_symlinks=False).st_uid == os.geteuid():
                yield Path(entry.path)


def _lock_directory(directory: Path, how: int) -> int:
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
    return max(PLACES, key=_usability)


def holds_devices(place: str) -> bool:
    """Return whether this process can make device files in a place that can be opened."""
    return _usability(place) > 1


@cache
def _usability(place: str) -> int:
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


class Overlays:
    """Makes overlays for one sandbox, whose layers live as long as it."""

    def __init__(self, layers: Layers) -> None:
        """Have layers made in a directory of theirs."""
        self._new = layers.new

    def words(
        self,
        source: str,
        target: str,
        hidden: Mapping[str, Collection[str]] | None = None,
        places: Collection[str] = (),
        below: Collection[str] = (),
    ) -> Iterator[str]:
        """Yield the words that show a directory of the machine in a sandbox, and what others ``below`` hold besides.

        ``hidden`` are names that are left out, by the directory that they lie in, relative to the source; ``places``
        are directories that are shown empty, for something to be mounted there.
        """
        layer = self._new()
        for directory, names in (hidden or {}).items():
            place = layer / directory
            _make_directories(layer, place)
            for name in names:
                os.mknod(place / name, stat.S_IFCHR, 0)
        for name in places:
            _make_directories(layer, layer / name)
        for lower in (*below, source, str(layer)):
            yield from ("--overlay-src", lower)
        yield from ("--ro-overlay", target)

    def copied(self, source: str, target: str) -> Iterator[str]:
        """Yield the words that show a copy of a file in a sandbox."""
        copy = self._new() / "file"
        _copy_unnoted(source, str(copy))
        yield from ("--ro-bind", str(copy), target)

    def shown(self, source: str, target: str) -> Iterator[str]:
        """Yield the words that show a file or a directory of the machine, or a copy where it can't be an overlay."""
        if not Path(source).is_dir():
            return self.copied(source, target)
        if not why_shared(source):
            return self.words(source, target)
        copy = self._new() / "directory"
        shutil.copytree(source, copy, copy_function=_copy_unnoted)
        return iter(("--ro-bind", str(copy), target))

    def devices(self, names: Collection[str]) -> Iterator[str]:
        """Yield the words for device files: the sandbox's own where root can make them, else the machine's."""
        place = self._new() if own_devices() else Path("/dev")
        for name in names:
            if own_devices():
                os.mknod(place / name, stat.S_IFCHR, os.makedev(*DEVICES[name]))
                (place / name).chmod(0o666)
            yield from ("--dev-bind", f"{place}/{name}", f"/dev/{name}")


def own_devices() -> bool:
    """Return whether sandboxes have device files of their own."""
    return holds_devices(best_place())


def files_finding(pages: str, shared: Iterable[str]) -> str:
    """Return in words whose files a sandbox sees, how their pages are kept, and which are the machine's after all."""
    if why := why_shared():
        return f"the machine's, with what else is kept of them: {why}"
    named = ", ".join(shared)
    return f"an overlay of each sandbox's own, {pages}{'; of the machine: ' * bool(named)}{named}"


def bound_in(words: Sequence[str], own: Collection[Path]) -> list[str]:
    """Return what the words for bwrap show of this machine as it is, but for what lies in directories of its own."""
    bound = (source for word, source in pairwise(words) if word in {"--ro-bind", "--dev-bind"})
    return [source for source in bound if not any(Path(source).is_relative_to(place) for place in own)]


def why_shared(source: str = "/usr/lib") -> str:
    """Try whether a sandbox can have an overlay of a directory here; return why not, nothing where it can."""
    return _why_shared(Path(source).stat().st_dev, source)


@cache
def _why_shared(device: int, source: str) -> str:  # noqa: ARG001 - what is true of one directory is of all its device's
    with tempfile.TemporaryDirectory(prefix="evopolicygym-overlay-") as place:
        Path(place).chmod(0o711)
        try:
            with closing(Layers()) as layers:
                tried = _try_overlay(Path(place), Overlays(layers), source)
        except (OSError, SandboxError) as error:
            return f"no layer can be made: {error}"
    return f"no overlay can be mounted: {tried.stderr.strip()[:200]}" if tried.returncode else ""


def _try_overlay(place: Path, overlays: Overlays, source: str) -> "subprocess.CompletedProcess[str]":
    words = overlays.words(source, "/tried", {".": ["hidden"]})
    shown = [word for root in ("/usr", "/lib", "/lib64", "/bin") for word in ("--ro-bind-try", root, root)]
    with namespaces(sandbox_user(place)) as (kinds, needed):
        line = [bwrap(), *kinds, *shown, *words, "--", "/bin/true"]
        return subprocess.run(line, capture_output=True, check=False, text=True, env={}, pass_fds=needed)


def _copy_unnoted(source: str, target: str) -> None:
    """Copy a file so that its disk doesn't note when it was read."""
    with open(source, "rb", opener=open_unnoted) as read, open(target, "wb") as written:  # noqa: PTH123 - the opener
        shutil.copyfileobj(read, written)
    Path(target).chmod(0o755 if os.access(source, os.X_OK) else 0o644)


def _make_directories(layer: Path, directory: Path) -> None:
    """Make a directory in a layer, with those above it, for anybody to enter."""
    for parent in (*reversed(directory.relative_to(layer).parents), directory.relative_to(layer)):
        (layer / parent).mkdir(exist_ok=True)
        (layer / parent).chmod(0o755)


def keep_in_memory(paths: Iterable[str]) -> int:
    """Keep all pages of files, and of the files in directories, in memory; return how many bytes are kept in all."""
    for path in paths:
        for file in _files_below(path):
            with suppress(OSError):
                _map_file(file)
    return sum(_mapped_bytes.values())


def open_unnoted(file: str, flags: int) -> int:
    """Open a file so that its disk doesn't note when it was read, where its owner or root asks."""
    try:
        return os.open(file, flags | os.O_NOATIME)
    except PermissionError:
        return os.open(file, flags)


def pages_finding() -> str:
    """Return in words how well the pages of files are kept by this process."""
    if resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] == resource.RLIM_INFINITY or _may_lock():
        return "all pages locked in memory"
    return "all pages in memory while the machine has enough"


def _may_lock() -> bool:
    """Return whether this process has the privilege to lock memory without a limit."""
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    privileges = next(line.split()[1] for line in status.splitlines() if line.startswith("CapEff:"))
    return bool(int(privileges, 16) >> CAP_IPC_LOCK & 1)


def _map_file(file: str) -> None:
    descriptor = open_unnoted(file, os.O_RDONLY | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
        key = status.st_dev, status.st_ino
        if not status.st_size or key in _mapped_bytes:
            return
        for flags in (SHARED | LOCKED | POPULATE, SHARED | POPULATE):  # an ordinary user may lock little
            if LIBC.mmap(None, status.st_size, READ, flags, descriptor, 0) != FAILED:
                _mapped_bytes[key] = status.st_size
                return
    finally:
        os.close(descriptor)


def _files_below(path: str) -> Iterator[str]:
    if not Path(path).is_dir():
        yield path
        return
    for directory, _, names in os.walk(path):
        for name in names:
            yield f"{directory}/{name}"
