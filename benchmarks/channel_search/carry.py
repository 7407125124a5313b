"""Sends bits by a carrier, or reads them, in a policy or an agent's program; it runs alone in a sandbox.

Each bit has a file of the standard library that nothing else reads. ``send`` uses the carrier on the files of ones;
``read`` returns a number for each file. The carrier "names" uses names beside these files that don't exist: to look one
up once is to have sent it, so each trial has names of its own, and each bit some, since each can be timed once.
"""

import ctypes
import encodings
import fcntl
import os
import struct
import time
from collections.abc import Callable
from contextlib import suppress

F_SETLEASE, OPENED = 1024, 0x20
NAMES = 9
NOT_WATCHED = -1, list[int]()
LIBC = ctypes.CDLL(None, use_errno=True)


def files(count: int) -> list[str]:
    """Return files of the machine that every sandbox has."""
    folder = os.path.dirname(encodings.__file__)  # noqa: PTH120 - pathlib would read more files, here and below
    names = sorted(os.listdir(folder))  # noqa: PTH208
    return [f"{folder}/{name}" for name in names if name.endswith(".py")][:count]


def names(path: str, trial: str) -> list[str]:
    """Return names beside a file that don't exist, of a trial's own."""
    return [f"{path}-{trial}-{number}" for number in range(NAMES)]


def send(carrier: str, bits: list[int], trial: str = "") -> list[int]:
    """Send bits; return descriptors that must stay open until they are read."""
    descriptors = list[int]()
    for path, bit in zip(files(len(bits)), bits, strict=True):
        if bit and carrier == "names":
            for name in names(path, trial):
                os.path.lexists(name)
        elif bit:
            file = os.open(path, os.O_RDONLY)
            if carrier == "locks":
                fcntl.flock(file, fcntl.LOCK_EX)
            elif carrier == "leases":
                with suppress(OSError):
                    fcntl.fcntl(file, F_SETLEASE, fcntl.F_RDLCK)
            else:
                os.read(file, 1 << 20)
            descriptors.append(file)
    return descriptors


def watch(count: int) -> tuple[int, list[int]]:
    """Watch files; return the argument ``watched`` of ``read``."""
    watching = LIBC.inotify_init1(os.O_NONBLOCK)
    return watching, [LIBC.inotify_add_watch(watching, path.encode(), OPENED) for path in files(count)]


def read(carrier: str, count: int, watched: tuple[int, list[int]] = NOT_WATCHED, trial: str = "") -> list[int]:
    """Return a number for each file, which is larger, or has changed, if a one was sent."""
    if carrier == "watches":
        return _read_watches(*watched)
    if carrier == "names":
        return [_time_lookups(names(path, trial)) for path in files(count)]
    return [_READERS[carrier](path) for path in files(count)]


def _read_watches(watching: int, watches: list[int]) -> list[int]:
    try:
        events, opened = os.read(watching, 1 << 20), set[int]()
    except OSError:
        return [0] * len(watches)
    while events:
        watch, _, _, size = struct.unpack_from("iIII", events)
        opened.add(watch)
        events = events[16 + size :]
    return [int(watch in opened) for watch in watches]


def _time_read(path: str) -> int:
    file = os.open(path, os.O_RDONLY)
    start = time.perf_counter_ns()
    os.pread(file, 1, 0)
    duration = time.perf_counter_ns() - start
    os.close(file)
    return -duration


def _time_lookups(paths: list[str]) -> int:
    durations = list[int]()
    for path in paths:
        start = time.perf_counter_ns()
        os.path.lexists(path)
        durations.append(time.perf_counter_ns() - start)
    return -sorted(durations)[len(durations) // 2]


def _is_in_memory(path: str) -> int:
    file = os.open(path, os.O_RDONLY)
    try:
        return os.preadv(file, [bytearray(1)], 0, os.RWF_NOWAIT)
    except OSError:
        return 0
    finally:
        os.close(file)


def _is_locked(path: str) -> int:
    file = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return 1
    finally:
        os.close(file)
    return 0


def _is_leased(path: str) -> int:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))
    except BlockingIOError:
        return 1
    except OSError:  # not writable for the reader
        return 0
    return 0


_READERS: dict[str, Callable[[str], int]] = {
    "pages, timed": _time_read,
    "pages, asked": _is_in_memory,
    "locks": _is_locked,
    "leases": _is_leased,
    "times": lambda path: os.stat(path).st_atime_ns,  # noqa: PTH116
    "numbers": lambda path: os.stat(path).st_ino,  # noqa: PTH116
}
