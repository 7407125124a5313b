"""Starts workers, on this Python or sandboxed on a pack's Python, and limits the size of their log."""

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
from evopolicygym.environments.description import pack_sandbox
from evopolicygym.packs.installation import command
from evopolicygym.sandbox.bwrap import SimulatorSandbox, no_simulator_sandbox

WORKER_MODULE = "evopolicygym.rollout.worker"
SANDBOXING_BACKENDS = frozenset({AUTO, "bubblewrap"})
"""Backends with which a pack's simulator is sandboxed."""
SIGNALLED = 128
"""Added to a signal's number in the exit code of a supervising process."""


class WorkerProcess(Protocol):
    """A started process, with the methods of ``subprocess.Popen`` that are used here."""

    pid: int

    def poll(self) -> int | None:
        """Return its exit code, negative for a signal; None while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end and return its exit code; raise ``subprocess.TimeoutExpired``."""

    def kill(self) -> None:
        """Kill it."""


class SandboxedProcess:
    """A process in a sandbox, with its supervisor outside."""

    def __init__(self, supervisor: "subprocess.Popen[bytes]", pid: int) -> None:
        """``pid`` is the number of the process inside."""
        self.pid = pid
        self._supervisor = supervisor
        self._code: int | None = None
        self._handle = os.pidfd_open(pid)

    def poll(self) -> int | None:
        """Return its exit code, negative for a signal; None while it runs."""
        return self._wait_for_exit(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end and return its exit code; raise ``subprocess.TimeoutExpired``."""
        code = self._wait_for_exit(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self._supervisor.args, timeout or 0.0)
        return code

    def kill(self) -> None:
        """Kill it; the supervisor ends with it."""
        if self._code is None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    def _wait_for_exit(self, timeout: float | None) -> int | None:
        if self._code is None:
            poll = select.poll()
            poll.register(self._handle, select.POLLIN)
            if not poll.poll(None if timeout is None else timeout * 1000):
                return None
            os.close(self._handle)
            code = self._supervisor.wait()
            self._code = SIGNALLED - code if code > SIGNALLED else code
        return self._code


def simulator_sandbox(pack: str, isolation: str, scratch: Path) -> SimulatorSandbox | None:
    """Return the sandbox of a worker on a pack's Python, which writes below ``scratch``; None without a pack."""
    if not pack:
        return None
    if Isolation.parse(isolation).backend not in SANDBOXING_BACKENDS:
        return no_simulator_sandbox("only the level bubblewrap has walls for it")
    return pack_sandbox(pack, scratch)


def start_worker(
    pack: str, descriptor: int, sandbox: SimulatorSandbox | None, variables: Mapping[str, str], log: IO[bytes]
) -> WorkerProcess:
    """Start a worker that serves ``descriptor`` and prints to ``log``; raise ``UsageError`` if its pack is missing."""
    line = command(pack, WORKER_MODULE, str(descriptor))
    if not (sandbox and sandbox.words):
        return _spawn(line, [descriptor], variables, log)
    ours, theirs = os.pipe()
    with os.fdopen(ours, "rb") as answer:
        try:
            program, *words = sandbox.words
            supervisor = _spawn(
                [program, "--info-fd", str(theirs), *words, *line], [descriptor, theirs], variables, log
            )
        finally:
            os.close(theirs)
        info = answer.read()
    with suppress(ProcessLookupError, ValueError):  # it ended at once, which its closed connection shows
        return SandboxedProcess(supervisor, json.loads(info)["child-pid"])
    return supervisor


def _spawn(
    line: list[str], inherited: list[int], variables: Mapping[str, str], log: IO[bytes]
) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        line, pass_fds=inherited, env={**os.environ, **variables}, stdin=subprocess.DEVNULL, stdout=log, stderr=log
    )


MAX_LOG_BYTES = 16 << 20
"""Size above which a log is cut, in bytes; checked after each episode."""
KEPT_LOG_BYTES = 8 << 20
"""Bytes kept of the log's beginning; later output follows them."""
CUT_MARK = b"\n[log cut here: simulators printed more than is kept]\n"


def truncate_log(log: Path) -> None:
    """Cut a log that is too long; processes may go on appending to it."""
    with suppress(OSError):
        if log.stat().st_size > MAX_LOG_BYTES:
            with regular_file.appender(log) as file:
                file.truncate(KEPT_LOG_BYTES)
                file.write(CUT_MARK)
