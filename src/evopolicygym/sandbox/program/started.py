"""A started program, with all that it starts: its stub's handshake, its limits, and its end.

A stub (``inside/stub.py``) runs where the program will: it gives up what it is asked to, reports what holds, and
becomes the program.
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

from evopolicygym.core.errors import SandboxError
from evopolicygym.sandbox.base import Serve
from evopolicygym.sandbox.cgroup import ControlGroup
from evopolicygym.sandbox.limits import NICE, ProcessGroup, Watch
from evopolicygym.sandbox.overlays import Layers

GONE_S = 10.0
"""Seconds within which killed processes must be gone."""
EMPTY_LOOKS, LOOK_S = 2, 0.02
"""How often in a row nothing must be found of a program that no namespace ends, and the seconds between."""
HANDSHAKE_S = 30.0


@dataclass(frozen=True, slots=True)
class StartedProgram:
    """A program at work, as ``base.RunningProgram`` has it."""

    process: "subprocess.Popen[bytes]"
    """Its stdout and stderr come out of ``process.stdout``."""
    group: int
    """Its process group, as this side numbers it."""
    init: int | None
    """A descriptor of the first process of its namespace; None where it has none."""
    mark: bytes
    """What its environment holds and no other program's does; empty where that is not needed."""
    watch: Watch
    """Knows when it goes over a limit that is looked after from outside."""
    control_group: ControlGroup | None = None
    findings: Mapping[str, str] = field(default_factory=dict)
    """What was found to hold it in, by name."""
    layers: Layers | None = None
    """Where the layers of its overlays lie for as long as it runs."""

    def limit_exceeded(self) -> str:
        """Return in a sentence which limit it passed; empty where none."""
        return self.watch.limit_exceeded()

    def terminate(self, grace_s: float) -> None:
        """Ask it to end, kill what is left after the grace, and return once nothing of it runs.

        Raises ``SandboxError`` where something of it can't be ended.
        """
        try:
            self._end(grace_s)
        finally:
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
        # The first process of a namespace ends only after the kernel has ended and reaped every other.
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.init, signal.SIGKILL)
        gone, _, _ = select.select([self.init], [], [], GONE_S)
        os.close(self.init)
        if not gone:
            raise SandboxError(f"The agent's processes were still there {GONE_S:g} s after they were killed.")


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def kill_marked(mark: bytes) -> None:
    """Kill every process whose environment holds the mark, also what has left its group by a session of its own.

    A process that is just starting another program shows no environment for a moment, so none must be found twice.
    """
    empty = 0
    while mark and empty < EMPTY_LOOKS:
        found = list(ProcessGroup(mark=mark)())
        for process in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(Path(process).name), signal.SIGKILL)
        empty = 0 if found else empty + 1
        sleep(LOOK_S)


def stub_orders(
    channel: socket.socket, ports: Iterable[int], amounts: Mapping[str, tuple[int, int]], sizes: Iterable[str]
) -> dict[str, Any]:
    """Return what a stub is asked to do."""
    at = {"channel": channel.fileno(), "ports": list(ports), "sizes": list(sizes)}
    return {**at, "limits": amounts, "nice": NICE, "confinement": None}


def stub_arguments(asked: Mapping[str, Any]) -> list[str]:
    """Return the arguments by which a Python becomes a stub that does what it is asked."""
    text = (files("evopolicygym.sandbox.program") / "inside" / "stub.py").read_text(encoding="utf-8")
    return ["-I", "-c", text, json.dumps(asked)]


@contextlib.contextmanager
def killed_on_failure(process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """End a process that doesn't get as far as it should; what it printed says why."""
    try:
        yield
    except (OSError, ValueError, KeyError, IndexError, SandboxError) as error:
        process.kill()
        output, _ = process.communicate()
        reason = output.decode("utf-8", "replace").strip()[-500:]
        raise SandboxError(f"The agent's workplace could not be made: {reason or error}") from error


def finish_handshake(
    ours: socket.socket, endpoints: Sequence[Serve], found: Callable[[Mapping[str, Any]], Mapping[str, str]]
) -> Mapping[str, str]:
    """Have a stub's endpoints served, and let the stub become the program; return what was found to hold it in."""
    ours.settimeout(HANDSHAKE_S)
    answer, descriptors, _, _ = socket.recv_fds(ours, 1 << 16, len(endpoints))
    held = found(json.loads(answer))
    environment: dict[str, str] = {}
    for serve, descriptor in zip(endpoints, descriptors, strict=True):
        environment |= serve(socket.socket(fileno=descriptor))
    ours.sendall(json.dumps(environment).encode() + b"\n")
    return held
