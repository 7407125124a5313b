"""Where an agent's program works: started, watched over, and gone when it is over.

At level bubblewrap it has namespaces of its own with loopback only. The judge is reached through a listening socket
that is made inside the sandbox's network and passed out, so nothing of ours runs beside the program. At weaker levels
it is a plain process with a minimal environment. What it sees is not told here but in ``view.py``.
"""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from evopolicygym.core.errors import SandboxError
from evopolicygym.sandbox.bubblewrap import NAMESPACES, bwrap
from evopolicygym.sandbox.view import ACCOUNTS, SIMULATORS, python_of, search_path, words

JUDGE_PORT = 8700
HANDSHAKE_S = 30.0
GONE_S = 10.0
"""Seconds within which killed processes must be gone."""
Serve = Callable[[socket.socket], Mapping[str, str]]
"""Answers on a listening socket; returns the environment variables by which a program finds it."""


@dataclass(frozen=True, slots=True)
class Occupant:
    """A program at work, with all that it starts."""

    process: "subprocess.Popen[bytes]"
    """Its stdout and stderr come out of ``process.stdout``."""
    group: int
    """Its process group, as this side numbers it."""
    init: int | None
    """A descriptor of the first process of its namespace; None where it has none."""
    mark: bytes
    """What its environment holds and no other program's does; empty where that is not needed."""

    def leave(self, grace_s: float) -> None:
        """Ask it to end, kill what is left after the grace, and return once nothing of it runs."""
        if self.process.poll() is None:
            _signal_group(self.group, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(grace_s)
        self._kill()
        self.process.wait(GONE_S)

    def _kill(self) -> None:
        if self.init is None:
            _signal_group(self.group, signal.SIGKILL)
            _kill_marked(self.mark)
            return
        # The first process of a namespace ends only after the kernel has ended and reaped every other.
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.init, signal.SIGKILL)
        gone, _, _ = select.select([self.init], [], [], GONE_S)
        os.close(self.init)
        if not gone:
            raise SandboxError(f"The agent's processes were still there {GONE_S:g} s after they were killed.")


def enclosed(command: Sequence[str], workspace: Path, serve: Serve) -> Occupant:
    """Start a program in namespaces of its own; raise ``SandboxError`` where they can't be made."""
    ours, theirs = socket.socketpair()
    information, informed = os.pipe()
    stub = (files("evopolicygym.sandbox") / "inside" / "stub.py").read_text(encoding="utf-8")
    inner = [_python(), "-I", "-c", stub, str(theirs.fileno()), str(JUDGE_PORT), *command]
    with ours, theirs, os.fdopen(information, "rb") as said:
        arguments = ["--info-fd", str(informed)]
        process = _bwrap(arguments, workspace, command, inner, (theirs.fileno(), informed))
        os.close(informed)
        theirs.close()
        return _received(process, said.read(), ours, serve)


def plain(command: Sequence[str], workspace: Path, addresses: Mapping[str, str]) -> Occupant:
    """Start a program without a sandbox, in a session of its own; raise ``SandboxError`` where it can't be started."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "USER") if name in os.environ}
    try:
        process = subprocess.Popen(
            list(command),
            env={**kept, **addresses},
            cwd=workspace,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise SandboxError(f"The agent's program {command[0]!r} can't be started: {error.strerror}.") from error
    mark = next((f"{name}={address}" for name, address in addresses.items()), "")
    return Occupant(process, process.pid, None, mark.encode())


def preflight(command: Sequence[str], workspace: Path, hidden: Sequence[Path]) -> Mapping[str, str]:
    """Look around a workplace before its program does; return what was found.

    Raises ``SandboxError`` where the program isn't in it, where a Python in it can import a simulator, where a path of
    ``hidden`` or the workspace's own place on this machine can be seen, or where no workplace can be made.
    """
    script = (files("evopolicygym.sandbox") / "inside" / "preflight.py").read_text(encoding="utf-8")
    paths = ":".join(str(path.absolute()) for path in (workspace, *hidden))
    python = python_of(command)
    inner = [_python(), "-I", "-c", script, ",".join(SIMULATORS), paths, command[0], *([python] if python else [])]
    with _bwrap([], workspace, command, inner, ()) as process:
        output, _ = process.communicate()
    if process.returncode:
        said = output.decode("utf-8", "replace").strip()[-500:]
        raise SandboxError(f"No workplace can be made for the agent's program: {said or process.returncode}")
    found = json.loads(output)
    if not found["program"]:
        raise SandboxError(f"The agent's program {command[0]!r} can't be started: it is not in its workplace.")
    for program, name in found["simulators"]:
        raise SandboxError(f"The agent's {program} can import {name}: it could play episodes that nobody counts.")
    for path in found["paths"]:
        raise SandboxError(f"The agent could see {path}: name no directory above it in the command.")
    return {"agent": f"no simulator in {', '.join(found['pythons'])}; the record can't be seen"}


def _bwrap(
    options: Sequence[str], workspace: Path, command: Sequence[str], inner: Sequence[str], inherited: Sequence[int]
) -> "subprocess.Popen[bytes]":
    """Start a command line of ours in the view that belongs to a program's command."""
    with contextlib.ExitStack() as stack:
        laid = list(_accounts(stack)) + list(words(workspace.absolute(), command))
        arguments = _in_memory(stack, b"\0".join(word.encode() for word in (*NAMESPACES, *options, *laid)) + b"\0")
        accounts = [int(laid[place + 1]) for place, word in enumerate(laid) if word == "--ro-bind-data"]
        return subprocess.Popen(
            ["bwrap", "--args", str(arguments), "--", *inner],  # noqa: S607 - a name; the program is below
            executable=bwrap(),
            env={},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=[arguments, *accounts, *inherited],
        )


def _accounts(stack: contextlib.ExitStack) -> Iterator[str]:
    yield from ("--perms", "0755", "--dir", "/etc")
    for name, text in ACCOUNTS.items():
        yield from ("--perms", "0644", "--ro-bind-data", str(_in_memory(stack, text.encode())), f"/etc/{name}")


def _received(process: "subprocess.Popen[bytes]", said: bytes, ours: socket.socket, serve: Serve) -> Occupant:
    """Take the door from a stub, have it served, and let the stub become the program."""
    try:
        child = int(json.loads(said)["child-pid"])
        init = os.pidfd_open(child)
        ours.settimeout(HANDSHAKE_S)
        _, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
        environment = serve(socket.socket(fileno=descriptors[0]))
        ours.sendall(json.dumps(dict(environment)).encode() + b"\n")
    except (OSError, ValueError, KeyError, IndexError) as error:
        process.kill()
        output, _ = process.communicate()
        reason = output.decode("utf-8", "replace").strip()[-500:]
        raise SandboxError(f"The agent's workplace could not be made: {reason or error}") from error
    return Occupant(process, child, init, b"")


def _python() -> str:
    """Return the Python inside by its path there."""
    places = (f"{place}/python3" for place in search_path())
    return next(program for program in places if os.access(program, os.X_OK))


def _in_memory(stack: contextlib.ExitStack, data: bytes) -> int:
    """Return a descriptor from which data can be read, so that it stands on no command line."""
    descriptor = os.memfd_create("workplace", 0)
    stack.callback(os.close, descriptor)
    os.write(descriptor, data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _kill_marked(mark: bytes) -> None:
    """Kill every process whose environment holds the mark: what has left the group by a session of its own."""
    while mark and (marked := [process for process in _processes() if mark in _environment(process)]):
        for process in marked:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


def _processes() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _environment(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/environ").read_bytes()
    except OSError:
        return b""
