"""Sends bits by a carrier, or reads them, in a policy or in an agent's program: it is run by itself in a sandbox.

The bits stand for files of the standard library that nobody reads. ``send`` does to those of ones what the carrier
does; ``read`` returns a number for each file. What is mounted from this machine is one file for whoever has it.
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
NOT_WATCHED = -1, list[int]()
LIBC = ctypes.CDLL(None, use_errno=True)


def files(count: int) -> list[str]:
    """Return files of the machine that every sandbox shows."""
    place = os.path.dirname(encodings.__file__)  # noqa: PTH120 - pathlib would read more files, here and below
    names = sorted(os.listdir(place))  # noqa: PTH208
    return [f"{place}/{name}" for name in names if name.endswith(".py")][:count]


def send(carrier: str, bits: list[int]) -> list[int]:
    """Send bits; return what has to be kept for as long as they are to be read."""
    kept = list[int]()
    for path, bit in zip(files(len(bits)), bits, strict=True):
        if bit:
            file = os.open(path, os.O_RDONLY)
            if carrier == "locks":
                fcntl.flock(file, fcntl.LOCK_EX)
            elif carrier == "leases":
                with suppress(OSError):
                    fcntl.fcntl(file, F_SETLEASE, fcntl.F_RDLCK)
            else:
                os.read(file, 1 << 20)
            kept.append(file)
    return kept


def watch(count: int) -> tuple[int, list[int]]:
    """Watch files; return what ``read`` needs of it."""
    watching = LIBC.inotify_init1(os.O_NONBLOCK)
    return watching, [LIBC.inotify_add_watch(watching, path.encode(), OPENED) for path in files(count)]


def read(carrier: str, count: int, watched: tuple[int, list[int]] = NOT_WATCHED) -> list[int]:
    """Return a number for each file: larger, or other than before, where a one was sent."""
    if carrier == "watches":
        return _seen(*watched)
    return [_READERS[carrier](path) for path in files(count)]


def _seen(watching: int, marks: list[int]) -> list[int]:
    try:
        events, found = os.read(watching, 1 << 20), set[int]()
    except OSError:
        return [0] * len(marks)
    while events:
        mark, _, _, size = struct.unpack_from("iIII", events)
        found.add(mark)
        events = events[16 + size :]
    return [int(mark in found) for mark in marks]


def _quick(path: str) -> int:
    file = os.open(path, os.O_RDONLY)
    began = time.perf_counter_ns()
    os.pread(file, 1, 0)
    took = time.perf_counter_ns() - began
    os.close(file)
    return -took


def _resident(path: str) -> int:
    file = os.open(path, os.O_RDONLY)
    try:
        return os.preadv(file, [bytearray(1)], 0, os.RWF_NOWAIT)
    except OSError:
        return 0
    finally:
        os.close(file)


def _locked(path: str) -> int:
    file = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return 1
    finally:
        os.close(file)
    return 0


def _leased(path: str) -> int:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))
    except BlockingIOError:
        return 1
    except OSError:  # its reader may not write to it anyway
        return 0
    return 0


_READERS: dict[str, Callable[[str], int]] = {
    "pages, timed": _quick,
    "pages, asked": _resident,
    "locks": _locked,
    "leases": _leased,
    "times": lambda path: os.stat(path).st_atime_ns,  # noqa: PTH116
    "numbers": lambda path: os.stat(path).st_ino,  # noqa: PTH116
}
