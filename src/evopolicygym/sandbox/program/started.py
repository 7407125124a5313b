"""A started program and its processes: the handshake with its stub, its limits, and its termination.

A stub (``inside/stub.py``) runs in the sandbox: it drops rights as ordered, reports its limits and rights, and becomes
the program.
"""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from time import sleep
from typing import Any

from evopolicygym.core.causes import FROM_OUTSIDE
from evopolicygym.core.errors import SandboxError
from evopolicygym.sandbox.base import ProgramExit, Serve
from evopolicygym.sandbox.cgroup import ControlGroup
from evopolicygym.sandbox.limits import NICE, ProcessGroup, Watch
from evopolicygym.sandbox.overlays import Layers

GONE_S = 10.0
"""Seconds in which killed processes must be gone."""
EMPTY_LOOKS, LOOK_S = 2, 0.02
"""Number of searches in a row that must find no process of a program without a namespace, and the pause between."""
HANDSHAKE_S = 30.0
STATUS_BYTES = 16
SHELL_SIGNAL = 128
"""What shells and bwrap add to the number of a signal that ended a program."""


@dataclass(frozen=True, slots=True)
class StartedProgram:
    """A running program; a ``base.RunningProgram``."""

    process: "subprocess.Popen[bytes]"
    """Its ``stdout`` has the program's stdout and stderr."""
    group: int
    """Its process group, as numbered on the host."""
    init: int | None
    """A descriptor of the first process of its pid namespace; None without a namespace."""
    mark: bytes
    """Bytes that only its environment has; empty if they aren't needed."""
    watch: Watch
    """Measures the limits that the kernel doesn't enforce."""
    control_group: ControlGroup | None = None
    findings: Mapping[str, str] = field(default_factory=dict)
    """What is enforced on it, by name."""
    layers: Layers | None = None
    """Layers of its overlays, which live as long as it."""
    channel: socket.socket | None = None
    """The channel, without blocking, on which the first process of its namespace tells how it ended."""

    def limit_exceeded(self) -> str:
        """Return a sentence with the limit that it exceeded; empty if none."""
        return self.watch.limit_exceeded()

    def exited(self) -> ProgramExit | None:
        """Return how it ended; None while it runs."""
        code, status = self.process.poll(), b""
        if code is None:
            return None
        if self.channel is not None:
            with contextlib.suppress(OSError):
                status = self.channel.recv(STATUS_BYTES, socket.MSG_PEEK)
            # Without a message, its first process or bwrap was killed; bwrap then adds 128 to the signal.
            code = int(status) if status else min(code, SHELL_SIGNAL - code)
        over = self.control_group is not None and -code in FROM_OUTSIDE and self.control_group.memory_kills()
        limit = f"The program exceeded its memory, {self.watch.memory_mb} MiB." if over else ""
        return ProgramExit(code, limit, with_sandbox=self.channel is not None and not status)

    def terminate(self, grace_s: float) -> None:
        """Ask the program to end, kill its processes after the grace period, and return when none is left.

        Raises ``SandboxError`` if a process can't be killed.
        """
        try:
            self._end(grace_s)
        finally:
            if self.channel is not None:
                self.channel.close()
            if self.layers is not None:
                self.layers.close()

    def _end(self, grace_s: float) -> None:
        if self.process.poll() is None:
            _signal_group(self.group, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(grace_s)
        self._kill()
        try:
            self.process.wait(GONE_S)
        except subprocess.TimeoutExpired as error:
            raise SandboxError(f"The agent's program was still there {GONE_S:g} s after it was killed.") from error
        if self.control_group is not None:
            self.control_group.remove(GONE_S)

    def _kill(self) -> None:
        if self.init is None:
            _signal_group(self.group, signal.SIGKILL)
            kill_marked(self.mark)
            return
        # The first process of a namespace ends only after the kernel has killed and reaped all others.
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.init, signal.SIGKILL)
        ended, _, _ = select.select([self.init], [], [], GONE_S)
        os.close(self.init)
        if not ended:
            raise SandboxError(f"The agent's processes were still there {GONE_S:g} s after they were killed.")


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def kill_marked(mark: bytes) -> None:
    """Kill every process with the mark in its environment, whatever its process group.

    A process that starts another program has no environment for a moment, so two searches in a row must find none.
    """
    empty = 0
    while mark and empty < EMPTY_LOOKS:
        processes = list(ProcessGroup(mark=mark)())
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(Path(process).name), signal.SIGKILL)
        empty = 0 if processes else empty + 1
        sleep(LOOK_S)


def stub_orders(
    channel: socket.socket, ports: Iterable[int], amounts: Mapping[str, tuple[int, int]], sizes: Iterable[str]
) -> dict[str, Any]:
    """Return the orders for a stub."""
    orders = {"channel": channel.fileno(), "ports": list(ports), "sizes": list(sizes)}
    return {**orders, "limits": amounts, "nice": NICE, "confinement": None, "first": False}


def stub_arguments(orders: Mapping[str, Any]) -> list[str]:
    """Return the arguments with which Python runs a stub."""
    text = (files("evopolicygym.sandbox.program") / "inside" / "stub.py").read_text(encoding="utf-8")
    return ["-I", "-c", text, json.dumps(orders)]


@contextlib.contextmanager
def kill_on_failure(process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """Kill a process if the block fails; raise ``SandboxError`` with its output."""
    try:
        yield
    except (OSError, ValueError, KeyError, IndexError, SandboxError) as error:
        process.kill()
        output, _ = process.communicate()
        reason = output.decode("utf-8", "replace").strip()[-500:]
        raise SandboxError(f"The sandbox of the agent's program can't be created: {reason or error}") from error


def finish_handshake(
    ours: socket.socket, endpoints: Sequence[Serve], check: Callable[[Mapping[str, Any]], Mapping[str, str]]
) -> Mapping[str, str]:
    """Check a stub's report, serve its endpoints, and let it become the program; return the findings of ``check``."""
    ours.settimeout(HANDSHAKE_S)
    answer, descriptors, _, _ = socket.recv_fds(ours, 1 << 16, len(endpoints))
    findings = check(json.loads(answer))
    environment: dict[str, str] = {}
    for serve, descriptor in zip(endpoints, descriptors, strict=True):
        environment |= serve(socket.socket(fileno=descriptor))
    ours.sendall(json.dumps(environment).encode() + b"\n")
    return findings
