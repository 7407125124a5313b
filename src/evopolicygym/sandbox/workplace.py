"""Where an agent's program works: started, watched over, and gone when it is over.

At level bubblewrap it has namespaces of its own with loopback only. What it reaches beyond is reached through doors:
listening sockets that are made inside the sandbox's network and passed out, so nothing of ours runs beside the program.
At weaker levels it is a plain process with a minimal environment. What it sees is not told here but in ``view.py``.
"""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

from evopolicygym.core.agent import AgentLimits
from evopolicygym.core.errors import SandboxError
from evopolicygym.sandbox import cgroup, view
from evopolicygym.sandbox.bubblewrap import NAMESPACES, as_arguments, bwrap, in_memory
from evopolicygym.sandbox.cgroup import ControlGroup
from evopolicygym.sandbox.limits import NICE, findings, of_this_machine, resource_limits
from evopolicygym.sandbox.seccomp import agent_filter
from evopolicygym.sandbox.view import ACCOUNTS, HIDDEN, python_of, search_path
from evopolicygym.sandbox.watch import MEBIBYTE, Watch

JUDGE_PORT, MODEL_PORT = 8700, 8701
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
    watch: Watch
    """Knows when it goes over a limit that is looked after from outside."""
    control_group: ControlGroup | None = None
    findings: Mapping[str, str] = field(default_factory=dict)
    """What was found to hold it in, by name."""

    def leave(self, grace_s: float) -> None:
        """Ask it to end, kill what is left after the grace, and return once nothing of it runs.

        Raises ``SandboxError`` where something of it can't be ended.
        """
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
            _kill_marked(self.mark)
            return
        # The first process of a namespace ends only after the kernel has ended and reaped every other.
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.init, signal.SIGKILL)
        gone, _, _ = select.select([self.init], [], [], GONE_S)
        os.close(self.init)
        if not gone:
            raise SandboxError(f"The agent's processes were still there {GONE_S:g} s after they were killed.")


def enclosed(
    command: Sequence[str],
    workspace: Path,
    doors: Mapping[int, Serve],
    limits: AgentLimits,
    home: Path | None = None,
) -> Occupant:
    """Start a program in namespaces of its own, with doors by their ports inside.

    Its home is a directory of this machine where one is given, and else gone with the program.

    Raises ``SandboxError`` where the namespaces can't be made, or don't hold what they should.
    """
    limits = of_this_machine(limits)
    group = cgroup.make(limits.memory_mb, limits.processes)
    ours, theirs = socket.socketpair()
    information, informed = os.pipe()
    stub = (files("evopolicygym.sandbox") / "inside" / "stub.py").read_text(encoding="utf-8")
    told = {
        "channel": theirs.fileno(),
        "ports": list(doors),
        "limits": resource_limits(limits),
        "nice": NICE,
        "sizes": [place for place in (*view.SCRATCH, view.SHARED_MEMORY) if home is None or place != view.HOME],
    }
    inner = [_python(), "-I", "-c", stub, json.dumps(told), *command]
    try:
        with ours, theirs, os.fdopen(information, "rb") as said:
            try:
                given = (theirs.fileno(), informed)
                process = _bwrap(["--info-fd", str(informed)], workspace, home, command, inner, given, limits, group)
            finally:
                os.close(informed)
            theirs.close()
            init, child, held = _received(process, said.read(), ours, list(doors.values()), limits, group)
    except BaseException:
        if group:
            group.remove(GONE_S)
        raise
    if home is not None:
        held = {**held, "home": f"{limits.scratch_mb} MiB and {limits.system_files} entries, looked at from outside"}
    watch = Watch(workspace / "system", limits, None if group else child, home)
    return Occupant(process, child, init, b"", watch, group, held)


def plain(
    command: Sequence[str],
    workspace: Path,
    addresses: Mapping[str, str],
    limits: AgentLimits,
    home: Path | None = None,
) -> Occupant:
    """Start a program without a sandbox, in a session of its own; raise ``SandboxError`` where it can't be started."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "USER") if name in os.environ}
    try:
        process = subprocess.Popen(
            list(command),
            env={**kept, **({"HOME": str(home)} if home else {}), **addresses},
            cwd=workspace,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise SandboxError(f"The agent's program {command[0]!r} can't be started: {error.strerror}.") from error
    mark = next((f"{name}={address}" for name, address in addresses.items()), "")
    return Occupant(process, process.pid, None, mark.encode(), Watch(workspace / "system", limits, None, home))


def preflight(command: Sequence[str], workspace: Path, hidden: Sequence[Path]) -> Mapping[str, str]:
    """Look around a workplace before its program does; return what was found.

    Raises ``SandboxError`` where the program isn't in it, where a Python in it can import what it must not, where a
    path of ``hidden`` or the workspace's own place on this machine can be seen, where the system can be written to, or
    where no workplace can be made.
    """
    script = (files("evopolicygym.sandbox") / "inside" / "preflight.py").read_text(encoding="utf-8")
    paths = ":".join(str(path.absolute()) for path in (workspace, *hidden))
    python = python_of(command)
    inner = [_python(), "-I", "-c", script, ",".join(HIDDEN), paths, command[0], *([python] if python else [])]
    with _bwrap([], workspace, None, command, inner, (), AgentLimits(), None) as process:
        output, _ = process.communicate()
    if process.returncode:
        said = output.decode("utf-8", "replace").strip()[-500:]
        raise SandboxError(f"No workplace can be made for the agent's program: {said or process.returncode}")
    found = json.loads(output)
    if not found["program"]:
        raise SandboxError(f"The agent's program {command[0]!r} can't be started: it is not in its workplace.")
    for program, name in found["simulators"]:
        raise SandboxError(f"The agent's {program} can import {name}: what nobody counts could be played with it.")
    for path in found["paths"]:
        raise SandboxError(f"The agent could see {path}: name no directory above it in the command.")
    for path in found["writable"]:
        raise SandboxError(f"The agent could write to {path}: a workplace like that can't be made safely here.")
    return {
        "simulators": f"none can be imported by {', '.join(found['pythons'])}",
        "hidden": "neither the record nor the secrets can be seen",
    }


def _bwrap(
    options: Sequence[str],
    workspace: Path,
    home: Path | None,
    command: Sequence[str],
    inner: Sequence[str],
    inherited: Sequence[int],
    limits: AgentLimits,
    group: ControlGroup | None,
) -> "subprocess.Popen[bytes]":
    """Start a command line of ours in the view that belongs to a program's command."""
    with contextlib.ExitStack() as stack:

        def kept(data: bytes) -> int:
            descriptor = in_memory(data)
            stack.callback(os.close, descriptor)
            return descriptor

        accounts = {name: kept(text.encode()) for name, text in ACCOUNTS.items()}
        seen = view.words(workspace.absolute(), command, limits.scratch_mb * MEBIBYTE, home)
        laid = [*_accounts(accounts), *seen]
        passed = [*inherited, *accounts.values()]
        if rules := agent_filter():
            passed.append(kept(rules))
            laid += ["--seccomp", str(passed[-1])]
        passed.append(kept(as_arguments((*NAMESPACES, *options, *laid))))
        line = ["bwrap", "--args", str(passed[-1]), "--", *inner]  # a name; where the program lies is not told inside
        return subprocess.Popen(
            group.joined_by(bwrap(), line) if group else line,
            executable=None if group else bwrap(),
            env={},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=passed,
        )


def _accounts(descriptors: Mapping[str, int]) -> Iterator[str]:
    yield from ("--perms", "0755", "--dir", "/etc")
    for name, descriptor in descriptors.items():
        yield from ("--perms", "0644", "--ro-bind-data", str(descriptor), f"/etc/{name}")


def _received(
    process: "subprocess.Popen[bytes]",
    said: bytes,
    ours: socket.socket,
    doors: Sequence[Serve],
    limits: AgentLimits,
    group: ControlGroup | None,
) -> tuple[int, int, Mapping[str, str]]:
    """Take the doors from a stub, have them served, and let the stub become the program.

    Returns the first process of its namespace, as a descriptor and as a number, and what was found to hold it in.
    """
    try:
        child = int(json.loads(said)["child-pid"])
        init = os.pidfd_open(child)
        ours.settimeout(HANDSHAKE_S)
        told, descriptors, _, _ = socket.recv_fds(ours, 1 << 16, len(doors))
        held = findings(json.loads(told), limits, group)
        environment: dict[str, str] = {}
        for serve, descriptor in zip(doors, descriptors, strict=True):
            environment |= serve(socket.socket(fileno=descriptor))
        ours.sendall(json.dumps(environment).encode() + b"\n")
    except (OSError, ValueError, KeyError, IndexError, SandboxError) as error:
        process.kill()
        output, _ = process.communicate()
        reason = output.decode("utf-8", "replace").strip()[-500:]
        raise SandboxError(f"The agent's workplace could not be made: {reason or error}") from error
    return init, child, held


def _python() -> str:
    """Return the Python inside by its path there."""
    places = (f"{place}/python3" for place in search_path())
    return next(program for program in places if os.access(program, os.X_OK))


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
