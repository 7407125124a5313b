"""A named pipe that a program of a test holds open: a test waits for what it writes, and for its end.

It works through every wall, as the pipe lies in the test's own directory.
"""

import os
import select
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

PATIENCE_S = 120.0
"""Seconds after which a test that waits gives up."""


class Lifeline:
    """The reading end of a pipe."""

    def __init__(self, file: Path) -> None:
        os.mkfifo(file)
        file.chmod(0o666)  # a sandbox of root's writes as another user
        self._end = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
        self._read = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._end)

    def wait_for_line(self) -> str:
        """Return the first line that is written, once it is."""
        while b"\n" not in self._read:
            self._read += self._next()
        line, _, self._read = self._read.partition(b"\n")
        return line.decode()

    def wait_for_end(self) -> None:
        """Return once no process holds the pipe open; it must have been opened before."""
        while self._next():
            pass

    def _next(self) -> bytes:
        """Return what is written next; nothing once nobody can write any more."""
        assert select.select([self._end], [], [], PATIENCE_S)[0], "nothing was written, and somebody may still write"
        return os.read(self._end, 1 << 16)


@contextmanager
def ended_with(processes: set[int]) -> Iterator[None]:
    """Wait at the end for the end of these processes, which a test has started."""
    ends = []
    for process in processes:
        try:
            ends.append(os.pidfd_open(process))
        except ProcessLookupError:
            continue
    try:
        yield
        for end in ends:
            assert select.select([end], [], [], PATIENCE_S)[0], "a process is still there"
    finally:
        for end in ends:
            os.close(end)
