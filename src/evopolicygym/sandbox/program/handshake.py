"""The outer half of a stub's handshake: what it is given, what it answers, and how it becomes an agent's program.

The inner half is ``inside/stub.py``; it runs where the program will, gives up what it is asked to, and reports what
holds.
"""

import contextlib
import json
import socket
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any

from evopolicygym.core.errors import SandboxError
from evopolicygym.sandbox.confinement.limits import NICE
from evopolicygym.sandbox.program.contract import Serve

HANDSHAKE_S = 30.0


def orders(
    channel: socket.socket, ports: Iterable[int], amounts: Mapping[str, tuple[int, int]], sizes: Iterable[str]
) -> dict[str, Any]:
    """Return what a stub is asked to do."""
    at = {"channel": channel.fileno(), "ports": list(ports), "sizes": list(sizes)}
    return {**at, "limits": amounts, "nice": NICE, "confinement": None}


def stub(asked: Mapping[str, Any]) -> list[str]:
    """Return the arguments by which a Python becomes a stub that does what it is asked."""
    text = (files("evopolicygym.sandbox.program") / "inside" / "stub.py").read_text(encoding="utf-8")
    return ["-I", "-c", text, json.dumps(asked)]


@contextlib.contextmanager
def ended_unless_made(process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """End a process that doesn't get as far as it should; what it printed says why."""
    try:
        yield
    except (OSError, ValueError, KeyError, IndexError, SandboxError) as error:
        process.kill()
        output, _ = process.communicate()
        reason = output.decode("utf-8", "replace").strip()[-500:]
        raise SandboxError(f"The agent's workplace could not be made: {reason or error}") from error


def received(
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
