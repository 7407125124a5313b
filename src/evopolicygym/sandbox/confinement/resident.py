"""Files of the machine whose pages stay in memory, so that nobody learns from them what else was read.

They are mapped for as long as this process lives: that costs no memory beyond the cache, and others can't have such
pages given back. Where this process may lock memory, they stay even if the machine runs short of it.
"""

import ctypes
import os
import resource
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
READ, SHARED, LOCKED, POPULATE = 0x1, 0x1, 0x2000, 0x8000
CAP_IPC_LOCK = 14
FAILED = ctypes.c_void_p(-1).value
_kept = dict[tuple[int, int], int]()
"""The bytes of each file that is kept, by its device and number."""


def keep(paths: Iterable[str]) -> int:
    """Keep all pages of files, and of the files in directories, in memory; return how many bytes are kept in all."""
    for path in paths:
        for file in _files(path):
            with suppress(OSError):
                _keep(file)
    return sum(_kept.values())


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


def _keep(file: str) -> None:
    descriptor = open_unnoted(file, os.O_RDONLY | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
        key = status.st_dev, status.st_ino
        if not status.st_size or key in _kept:
            return
        for flags in (SHARED | LOCKED | POPULATE, SHARED | POPULATE):  # an ordinary user may lock little
            if LIBC.mmap(None, status.st_size, READ, flags, descriptor, 0) != FAILED:
                _kept[key] = status.st_size
                return
    finally:
        os.close(descriptor)


def _files(path: str) -> Iterator[str]:
    if not Path(path).is_dir():
        yield path
        return
    for directory, _, names in os.walk(path):
        for name in names:
            yield f"{directory}/{name}"
