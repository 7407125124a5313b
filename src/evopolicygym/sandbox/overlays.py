"""Private files of a sandbox: overlays of the machine's directories, and copies where overlays don't work.

A file that is mounted into two sandboxes is the same file to the kernel: both see its locks, leases, watches, number
and pages in memory. In an overlay it is another file, except for its pages, which ``keep_in_memory`` keeps in memory. A
layer above a directory hides entries that a sandbox must not see.

Layers are never in a run directory, since a copy of it would read device files without end. A process locks the
directory of its layers; layers without a lock are those of a killed process, and are removed by the next process that
creates layers or sees a worker end.
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
from time import monotonic, sleep

from evopolicygym.core.errors import SandboxError
from evopolicygym.sandbox.bwrap import bwrap, namespaces, sandbox_user

DEVICES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9)}
PLACES = ("/dev/shm", "/tmp")  # noqa: S108 - a private directory is made in it
"""Directories for layers, in order of preference."""
PREFIX = "evopolicygym-layers-"
ENDING_S = 0.2
"""Seconds in which a process that was killed has closed its files; a closed connection is seen before its locks are."""
_open_layers = set["Layers"]()
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
READ, SHARED, LOCKED, POPULATE = 0x1, 0x1, 0x2000, 0x8000
CAP_IPC_LOCK = 14
FAILED = ctypes.c_void_p(-1).value
_mapped_bytes = dict[tuple[int, int], int]()
"""Bytes of each file that is kept in memory, by device and number."""


class Layers:
    """A new directory for layers; raises ``OSError`` if no file system here supports them."""

    def __init__(self, parent: str = "") -> None:
        """Create the directory, in one of ``PLACES`` or the best of them, and remove those of killed processes."""
        remove_abandoned_layers()
        parent = parent or best_place()
        if not _usability(parent):
            raise OSError(f"files can be hidden in none of {', '.join(PLACES)}")
        self.directory = Path()
        self._lock = -1
        while self._lock < 0:
            self.directory = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
            with suppress(FileNotFoundError):  # another process removed it as abandoned before it was locked
                self._lock = _lock_directory(self.directory, fcntl.LOCK_EX)
        self.directory.chmod(0o711)
        self._count = 0
        _open_layers.add(self)

    def new(self) -> Path:
        """Return a new subdirectory that every user may enter."""
        self._count += 1
        layer = self.directory / str(self._count)
        layer.mkdir()
        layer.chmod(0o755)
        return layer

    def close(self) -> None:
        """Remove the directory; a running sandbox still sees its files."""
        if self in _open_layers:
            _open_layers.remove(self)
            shutil.rmtree(self.directory, ignore_errors=True)
            os.close(self._lock)


def remove_layers() -> None:
    """Remove all layers of this process, before it ends."""
    for layers in tuple(_open_layers):
        layers.close()


def remove_abandoned_layers() -> None:
    """Remove the layers of this user's killed processes."""
    for parent in PLACES:
        for directory in _layers_in(parent):
            try:
                lock = _lock_directory(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:  # locked, or removed
                continue
            shutil.rmtree(directory, ignore_errors=True)
            os.close(lock)


def remove_once_abandoned(directory: Path) -> None:
    """Remove layers whose process has ended, or is just ending; those of one that lives on stay."""
    deadline = monotonic() + ENDING_S
    while directory.exists() and monotonic() < deadline:
        remove_abandoned_layers()
        sleep(ENDING_S / 40)


def _layers_in(parent: str) -> Iterator[Path]:
    with suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX) and entry.stat(follow_symlinks=False).st_uid == os.geteuid():
                yield Path(entry.path)


def _lock_directory(directory: Path, how: int) -> int:
    """Return a descriptor that locks a directory; raise ``OSError`` if it is locked or removed."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, how)
        directory.lstat()
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def best_place() -> str:
    """Return the directory for layers: the first that supports device files, else the first that can hide files."""
    return max(PLACES, key=_usability)


def supports_devices(directory: str) -> bool:
    """Return whether this process can create and open device files in a directory."""
    return _usability(directory) > 1


@cache
def _usability(directory: str) -> int:
    """Return what a directory supports: 0 for nothing, 1 for layers that hide files, 2 for device files too."""
    try:
        with tempfile.TemporaryDirectory(dir=directory) as trial:
            os.mknod(Path(trial, "hidden"), stat.S_IFCHR, 0)
            try:
                os.mknod(Path(trial, "null"), stat.S_IFCHR, Path(os.devnull).stat().st_rdev)
                os.close(os.open(Path(trial, "null"), os.O_RDONLY))
            except OSError:
                return 1
    except OSError:
        return 0
    return 2


class Overlays:
    """Creates overlays for a sandbox."""

    def __init__(self, layers: Layers) -> None:
        """Create layers in ``layers``, which must live as long as the sandbox."""
        self._new = layers.new

    def words(
        self,
        source: str,
        target: str,
        hidden: Mapping[str, Collection[str]] | None = None,
        mount_points: Collection[str] = (),
        below: Collection[str] = (),
    ) -> Iterator[str]:
        """Yield bwrap's arguments for an overlay of a directory of the machine, with the entries of those ``below``.

        ``hidden`` has names of hidden entries by their directory, relative to the source; ``mount_points`` are empty
        directories in the overlay, as mount points.
        """
        layer = self._new()
        for directory, names in (hidden or {}).items():
            folder = layer / directory
            _make_directories(layer, folder)
            for name in names:
                os.mknod(folder / name, stat.S_IFCHR, 0)
        for name in mount_points:
            _make_directories(layer, layer / name)
        for lower in (*below, source, str(layer)):
            yield from ("--overlay-src", lower)
        yield from ("--ro-overlay", target)

    def copy_file(self, source: str, target: str) -> Iterator[str]:
        """Yield bwrap's arguments for a copy of a file."""
        copy = self._new() / "file"
        _copy_without_access_time(source, str(copy))
        yield from ("--ro-bind", str(copy), target)

    def show(self, source: str, target: str) -> Iterator[str]:
        """Return bwrap's arguments for an overlay of a directory, or a copy of a file or directory."""
        if not Path(source).is_dir():
            return self.copy_file(source, target)
        if not why_shared(source):
            return self.words(source, target)
        copy = self._new() / "directory"
        shutil.copytree(source, copy, copy_function=_copy_without_access_time)
        for directory, _, _ in os.walk(copy):
            Path(directory).chmod(0o755)
        return iter(("--ro-bind", str(copy), target))

    def devices(self, names: Collection[str]) -> Iterator[str]:
        """Yield bwrap's arguments for device files: the sandbox's own if root can create them, else the machine's."""
        folder = self._new() if own_devices() else Path("/dev")
        for name in names:
            if own_devices():
                os.mknod(folder / name, stat.S_IFCHR, os.makedev(*DEVICES[name]))
                (folder / name).chmod(0o666)
            yield from ("--dev-bind", f"{folder}/{name}", f"/dev/{name}")


def own_devices() -> bool:
    """Return whether sandboxes have their own device files."""
    return supports_devices(best_place())


def files_finding(pages: str, shared: Iterable[str]) -> str:
    """Return the finding on a sandbox's files: whether they are private, their pages, and which ones are shared."""
    if why := why_shared():
        return f"the machine's, with what else is kept of them: {why}"
    return f"an overlay of each sandbox's own, {pages}{name_shared(shared)}"


def name_shared(names: Iterable[str]) -> str:
    """Return the end of a finding on files, which names those that are the machine's."""
    listed = ", ".join(names)
    return f"; of the machine: {listed}" if listed else ""


def bound_in(words: Sequence[str], own: Collection[Path]) -> list[str]:
    """Return the paths of this machine that bwrap's arguments mount directly, except those below ``own``."""
    sources = (source for word, source in pairwise(words) if word in {"--ro-bind", "--dev-bind"})
    return [source for source in sources if not any(Path(source).is_relative_to(path) for path in own)]


def why_shared(source: str = "/usr/lib") -> str:
    """Try whether a sandbox can have an overlay of a directory here; return why not, or an empty text."""
    return _why_shared(Path(source).stat().st_dev, source)


@cache
def _why_shared(device: int, source: str) -> str:  # noqa: ARG001 - the answer is the same for a whole device
    with tempfile.TemporaryDirectory(prefix="evopolicygym-overlay-") as directory:
        Path(directory).chmod(0o711)
        try:
            with closing(Layers()) as layers:
                process = _try_overlay(Path(directory), Overlays(layers), source)
        except (OSError, SandboxError) as error:
            return f"no layer can be made: {error}"
    return f"no overlay can be mounted: {process.stderr.strip()[:200]}" if process.returncode else ""


def _try_overlay(directory: Path, overlays: Overlays, source: str) -> "subprocess.CompletedProcess[str]":
    words = overlays.words(source, "/tried", {".": ["hidden"]})
    mounts = [word for root in ("/usr", "/lib", "/lib64", "/bin") for word in ("--ro-bind-try", root, root)]
    with namespaces(sandbox_user(directory)) as (kinds, needed):
        line = [bwrap(), *kinds, *mounts, *words, "--", "/bin/true"]
        return subprocess.run(line, capture_output=True, check=False, text=True, env={}, pass_fds=needed)


def _copy_without_access_time(source: str, target: str) -> None:
    opener = open_without_access_time
    with open(source, "rb", opener=opener) as file, open(target, "wb") as copy:  # noqa: PTH123 - the opener
        shutil.copyfileobj(file, copy)
    Path(target).chmod(0o755 if os.access(source, os.X_OK) else 0o644)


def _make_directories(layer: Path, directory: Path) -> None:
    """Create a directory in a layer, with its parents, which every user may enter."""
    for parent in (*reversed(directory.relative_to(layer).parents), directory.relative_to(layer)):
        (layer / parent).mkdir(exist_ok=True)
        (layer / parent).chmod(0o755)


def keep_in_memory(paths: Iterable[str]) -> int:
    """Keep all pages of files, and of all files below directories, in memory; return the total of bytes so far."""
    for path in paths:
        for file in _files_below(path):
            with suppress(OSError):
                _map_file(file)
    return sum(_mapped_bytes.values())


def open_without_access_time(file: str, flags: int) -> int:
    """Open a file without updating its access time, if this user is its owner or root."""
    try:
        return os.open(file, flags | os.O_NOATIME)
    except PermissionError:
        return os.open(file, flags)


def pages_finding() -> str:
    """Return the finding on files' pages that this process keeps in memory."""
    if resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] == resource.RLIM_INFINITY or _may_lock():
        return "all pages locked in memory"
    return "all pages in memory while the machine has enough"


def _may_lock() -> bool:
    """Return whether this process may lock memory without a limit."""
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    privileges = next(line.split()[1] for line in status.splitlines() if line.startswith("CapEff:"))
    return bool(int(privileges, 16) >> CAP_IPC_LOCK & 1)


def _map_file(file: str) -> None:
    descriptor = open_without_access_time(file, os.O_RDONLY | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
        key = status.st_dev, status.st_ino
        if not status.st_size or key in _mapped_bytes:
            return
        for flags in (SHARED | LOCKED | POPULATE, SHARED | POPULATE):  # an ordinary user can lock little memory
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
