"""Starts a worker's process where its environment plays, sandboxed on a pack's Python, and bounds its log."""

import json
import os
import select
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Protocol

from evopolicygym.core import regular_file
from evopolicygym.core.options import AUTO
from evopolicygym.core.rollout import Isolation
from evopolicygym.environments.description import pack_walls
from evopolicygym.packs.installation import command
from evopolicygym.sandbox.bwrap import SimulatorWalls, no_walls

MODULE = "evopolicygym.rollout.worker"
WALLED = frozenset({AUTO, "bubblewrap"})
"""Levels at which a pack's simulator has walls."""
SIGNALLED = 128
"""Added to a signal's number in the exit code of a supervising process."""


class WorkerProcess(Protocol):
    """A process that was started, as ``subprocess`` has it."""

    pid: int

    def poll(self) -> int | None:
        """Return its exit code, negative for a signal; None while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end and return its exit code; raise ``subprocess.TimeoutExpired``."""

    def kill(self) -> None:
        """Kill it."""


class WalledProcess:
    """A process within walls, which another process of its own watches over."""

    def __init__(self, watching: "subprocess.Popen[bytes]", number: int) -> None:
        """Take the process that watches, and the number of the one within."""
        self.pid = number
        self._watching = watching
        self._code: int | None = None
        self._handle = os.pidfd_open(number)

    def poll(self) -> int | None:
        """Return its exit code, negative for a signal; None while it runs."""
        return self._ended(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end and return its exit code; raise ``subprocess.TimeoutExpired``."""
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self._watching.args, timeout or 0.0)
        return code

    def kill(self) -> None:
        """Kill it; the one that watches ends with it."""
        if self._code is None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    def _ended(self, timeout: float | None) -> int | None:
        if self._code is None:
            poll = select.poll()
            poll.register(self._handle, select.POLLIN)
            if not poll.poll(None if timeout is None else timeout * 1000):
                return None
            os.close(self._handle)
            code = self._watching.wait()
            self._code = SIGNALLED - code if code > SIGNALLED else code
        return self._code


def walls_of(pack: str, isolation: str, scratch: Path) -> SimulatorWalls | None:
    """Return the walls of a worker of a pack's own Python, which writes below a directory; None where it is ours."""
    if not pack:
        return None
    if Isolation.parse(isolation).backend not in WALLED:
        return no_walls("only the level bubblewrap has walls for it")
    return pack_walls(pack, scratch)


def start(
    pack: str, descriptor: int, walls: SimulatorWalls | None, variables: Mapping[str, str], log: IO[bytes]
) -> WorkerProcess:
    """Start a worker that listens on a descriptor and prints into a log; raise ``UsageError`` without its pack."""
    line = command(pack, MODULE, str(descriptor))
    if not (walls and walls.words):
        return _started(line, [descriptor], variables, log)
    ours, theirs = os.pipe()
    with os.fdopen(ours, "rb") as answer:
        try:
            program, *words = walls.words
            watching = _started(
                [program, "--info-fd", str(theirs), *words, *line], [descriptor, theirs], variables, log
            )
        finally:
            os.close(theirs)
        said = answer.read()
    with suppress(ProcessLookupError, ValueError):  # it ended at once, which is heard from its connection
        return WalledProcess(watching, json.loads(said)["child-pid"])
    return watching


def _started(
    line: list[str], inherited: list[int], variables: Mapping[str, str], log: IO[bytes]
) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        line, pass_fds=inherited, env={**os.environ, **variables}, stdin=subprocess.DEVNULL, stdout=log, stderr=log
    )


MOST = 16 << 20
"""Size from which a log is cut, in bytes; checked after each episode."""
KEPT = 8 << 20
"""Bytes kept of the log's beginning; later output follows them."""
MARK = b"\n[log cut here: simulators printed more than is kept]\n"


def bound(log: Path) -> None:
    """Cut a log that is too long; processes may go on appending to it."""
    with suppress(OSError):
        if log.stat().st_size > MOST:
            with regular_file.appender(log) as file:
                file.truncate(KEPT)
                file.write(MARK)
