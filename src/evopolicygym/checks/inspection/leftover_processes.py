"""Leftover processes: those that are still there although what started them is over.

Every process below this one is found, however it broke away: orphans are adopted while one looks for them.
"""

import ctypes
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep

PR_SET_CHILD_SUBREAPER = 36
GONE_S = 2.0
"""Seconds within which nothing of a policy may be left."""


@contextmanager
def orphans_adopted() -> Iterator[None]:
    """Have processes below this one that lose their parent come to this one, and not to the system's first."""
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def below(ancestor: int) -> set[int]:
    """Return the numbers of all processes below one, also of those that ended and that their parent didn't wait for.

    Its own children that ended are not among them: orphans that it adopted, and that nobody waits for.
    """
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
                if state != "Z" or int(parent) != ancestor:
                    parents[int(entry.name)] = int(parent)
    found: set[int] = set()
    level = {ancestor}
    while level := {number for number, parent in parents.items() if parent in level} - found:
        found |= level
    return found


def left_beyond(count: int) -> int:
    """Return how many processes more than ``count`` are below this one, ``GONE_S`` after the policy's end."""
    patience = monotonic() + GONE_S
    while (left := len(below(os.getpid())) - count) > 0 and monotonic() < patience:
        sleep(0.02)
    return max(0, left)


def end_adopted(ours: set[int]) -> None:
    """Kill what came to this process as an orphan, that is every child of it but ``ours``."""
    for number in _children(os.getpid()) - ours:
        with suppress(OSError):
            os.kill(number, signal.SIGKILL)
            os.waitpid(number, 0)


def _children(parent: int) -> set[int]:
    children = below(parent)
    return children - {number for child in children for number in below(child)}
