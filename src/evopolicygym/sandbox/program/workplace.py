"""Where an agent's program works: started, watched over, and gone when it is over.

At level bubblewrap it has namespaces of its own with loopback only. What it reaches beyond is reached through doors:
listening sockets that are made inside the sandbox's network and passed out, so nothing of ours runs beside the program.
At level process it is a plain process that gives up its privileges and is held to limits, at level none one with a
minimal environment and nothing else. What it sees is not told here but in ``view.py``.
"""

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from evopolicygym.core.agent import AgentLimits
from evopolicygym.core.errors import SandboxError
from evopolicygym.sandbox.backends.bubblewrap import NAMESPACES, as_arguments, bwrap, in_memory
from evopolicygym.sandbox.base import Confinement
from evopolicygym.sandbox.confinement import cgroup
from evopolicygym.sandbox.confinement.cgroup import ControlGroup
from evopolicygym.sandbox.confinement.limits import NICE, findings, of_this_machine, resource_limits
from evopolicygym.sandbox.confinement.seccomp import agent_filter
from evopolicygym.sandbox.confinement.watch import MEBIBYTE, Crowd, Watch
from evopolicygym.sandbox.program import view
from evopolicygym.sandbox.program.view import ACCOUNTS, python_of, search_path
from evopolicygym.sandbox.simulators import hidden_modules, names_of

JUDGE_PORT, MODEL_PORT = 8700, 8701
HANDSHAKE_S = 30.0
GONE_S = 10.0
"""Seconds within which killed processes must be gone."""
MOST_PYTHONS = 64
"""How many Pythons are tried, of those that a program can see."""
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
    simulators: Sequence[str] = (),
    packages: Sequence[str] = (),
) -> Occupant:
    """Start a program in namespaces of its own, with doors by their ports inside.

    Its home is a directory of this machine where one is given, and else gone with the program. ``simulators`` are
    modules that it may not import besides those that nobody may, by their names or paths, ``packages`` distributions
    that its policies may.

    Raises ``SandboxError`` where the namespaces can't be made, or don't hold what they should.
    """
    limits = of_this_machine(limits)
    group = cgroup.make(limits.processes, limits.memory_mb)
    ours, theirs = socket.socketpair()
    information, informed = os.pipe()
    modules, bytes_each = hidden_modules(simulators), limits.scratch_mb * MEBIBYTE
    seen = view.words(workspace.absolute(), command, bytes_each, home, modules, packages)
    sizes = (place for place in (*view.SCRATCH, view.SHARED_MEMORY) if home is None or place != view.HOME)
    inner = [_python(), *_stub(_told(theirs, doors, resource_limits(limits), sizes)), *command]
    try:
        with ours, theirs, os.fdopen(information, "rb") as said:
            try:
                process = _bwrap(["--info-fd", str(informed), *seen], inner, (theirs.fileno(), informed), group)
            finally:
                os.close(informed)
            theirs.close()
            with _ended_unless_made(process):
                child = int(json.loads(said.read())["child-pid"])
                init = os.pidfd_open(child)
                held = _received(ours, list(doors.values()), lambda told: findings(told, limits, group))
    except BaseException:
        if group:
            group.remove(GONE_S)
        raise
    if home is not None:
        held = {**held, "home": f"{limits.scratch_mb} MiB and {limits.system_files} entries, looked at from outside"}
    watch = Watch(workspace / "system", limits, None if group else Crowd(first=f"/proc/{child}"), home)
    return Occupant(process, child, init, b"", watch, group, held)


def plain(
    command: Sequence[str],
    workspace: Path,
    addresses: Mapping[str, str],
    limits: AgentLimits,
    home: Path | None = None,
    *,
    confined: bool = False,
) -> Occupant:
    """Start a program without namespaces, in a session of its own; raise ``SandboxError`` where it can't be started.

    Where it is ``confined``, it has no privileges, and limits as in a sandbox.
    """
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "USER") if name in os.environ}
    environment = {**kept, **({"HOME": str(home)} if home else {}), **addresses}
    mark = next((f"{name}={address}" for name, address in addresses.items()), "").encode()
    if confined:
        return _confined(command, workspace, environment, mark, of_this_machine(limits), home)
    try:
        process = _by_itself(command, workspace, environment)
    except OSError as error:
        raise SandboxError(f"The agent's program {command[0]!r} can't be started: {error.strerror}.") from error
    return Occupant(process, process.pid, None, mark, Watch(workspace / "system", limits, None, home))


def _confined(
    command: Sequence[str],
    workspace: Path,
    environment: Mapping[str, str],
    mark: bytes,
    limits: AgentLimits,
    home: Path | None,
) -> Occupant:
    """Start a program that first gives up what a plain process can."""
    if not shutil.which(os.path.join(workspace, command[0]) if "/" in command[0] else command[0]):  # noqa: PTH118 - a word
        raise SandboxError(f"The agent's program {command[0]!r} can't be started: there is no such program.")
    group = cgroup.make(limits.processes, limits.memory_mb)
    ours, theirs = socket.socketpair()
    given_up = Confinement(seccomp=(agent_filter() or b"").hex(), unprivileged=True)
    told = {
        **_told(theirs, (), resource_limits(limits, namespaced=False), ()),
        "confinement": asdict(given_up),
        "lockdown": str(files("evopolicygym.rollout.guest") / "lockdown.py"),
    }
    line = [sys.executable, *_stub(told), *command]
    try:
        with ours, theirs:
            joining = group.joined_by(line[0], line) if group else line
            process = _by_itself(joining, workspace, environment, theirs.fileno())
            theirs.close()
            with _ended_unless_made(process):
                held = _received(ours, (), lambda told: findings(told, limits, group, namespaced=False))
    except BaseException:
        if group:
            group.remove(GONE_S)
        raise
    watch = Watch(workspace / "system", limits, None if group else Crowd(mark=mark), home)
    return Occupant(process, process.pid, None, mark, watch, group, held)


def _by_itself(
    line: Sequence[str], workspace: Path, environment: Mapping[str, str], *inherited: int
) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        list(line),
        env=environment,
        cwd=workspace,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        pass_fds=inherited,
    )


def _told(
    channel: socket.socket, ports: Iterable[int], amounts: Mapping[str, tuple[int, int]], sizes: Iterable[str]
) -> dict[str, Any]:
    """Return what a stub is told."""
    at = {"channel": channel.fileno(), "ports": list(ports), "sizes": list(sizes)}
    return {**at, "limits": amounts, "nice": NICE, "confinement": None}


def _stub(told: Mapping[str, Any]) -> list[str]:
    """Return the arguments by which a Python becomes a stub that is told this."""
    text = (files("evopolicygym.sandbox.program") / "inside" / "stub.py").read_text(encoding="utf-8")
    return ["-I", "-c", text, json.dumps(told)]


def preflight(
    command: Sequence[str],
    workspace: Path,
    hidden: Sequence[Path],
    simulators: Sequence[str] = (),
    packages: Sequence[str] = (),
) -> Mapping[str, str]:
    """Look around a workplace before its program does; return what was found.

    Raises ``SandboxError`` where the program isn't in it, where a Python in it can import what it must not, where a
    path of ``hidden`` or the workspace's own place on this machine can be seen, where the system can be written to, or
    where no workplace can be made.
    """
    script = (files("evopolicygym.sandbox.program") / "inside" / "preflight.py").read_text(encoding="utf-8")
    paths = ":".join(str(path.absolute()) for path in (workspace, *hidden))
    python = python_of(command)
    modules = hidden_modules(simulators)
    searched = view.searched(command, modules, packages)
    pythons = [*([python] if python else []), *(one for found in searched.values() for one in found.pythons)]
    names = names_of(modules)
    inner = [_python(), "-I", "-c", script, ",".join(names), paths, command[0], *pythons[:MOST_PYTHONS]]
    seen = view.words(workspace.absolute(), command, AgentLimits().scratch_mb * MEBIBYTE, None, modules, packages)
    with _bwrap(seen, inner, (), None) as process:
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
        "simulators": (
            f"none can be imported by {', '.join(found['pythons'])}; hidden, looked for by their names in "
            f"{', '.join(searched)}: {', '.join(names)}"
        ),
        "hidden": "neither the record nor the secrets can be seen",
    }


def _bwrap(
    seen: Iterable[str], inner: Sequence[str], inherited: Sequence[int], group: ControlGroup | None
) -> "subprocess.Popen[bytes]":
    """Start a command line of ours in the view that these words lay out."""
    with contextlib.ExitStack() as stack:

        def kept(data: bytes) -> int:
            descriptor = in_memory(data)
            stack.callback(os.close, descriptor)
            return descriptor

        accounts = {name: kept(text.encode()) for name, text in ACCOUNTS.items()}
        laid = [*_accounts(accounts), *seen]
        passed = [*inherited, *accounts.values()]
        if rules := agent_filter():
            passed.append(kept(rules))
            laid += ["--seccomp", str(passed[-1])]
        passed.append(kept(as_arguments((*NAMESPACES, *laid))))
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


@contextlib.contextmanager
def _ended_unless_made(process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """End a process that doesn't get as far as it should; what it printed says why."""
    try:
        yield
    except (OSError, ValueError, KeyError, IndexError, SandboxError) as error:
        process.kill()
        output, _ = process.communicate()
        reason = output.decode("utf-8", "replace").strip()[-500:]
        raise SandboxError(f"The agent's workplace could not be made: {reason or error}") from error


def _received(
    ours: socket.socket, doors: Sequence[Serve], found: Callable[[Mapping[str, Any]], Mapping[str, str]]
) -> Mapping[str, str]:
    """Take the doors from a stub, have them served, and let the stub become the program; return what holds it in."""
    ours.settimeout(HANDSHAKE_S)
    told, descriptors, _, _ = socket.recv_fds(ours, 1 << 16, len(doors))
    held = found(json.loads(told))
    environment: dict[str, str] = {}
    for serve, descriptor in zip(doors, descriptors, strict=True):
        environment |= serve(socket.socket(fileno=descriptor))
    ours.sendall(json.dumps(environment).encode() + b"\n")
    return held


def _python() -> str:
    """Return the Python inside by its path there."""
    places = (f"{place}/python3" for place in search_path())
    return next(program for program in places if os.access(program, os.X_OK))


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _kill_marked(mark: bytes) -> None:
    """Kill every process whose environment holds the mark: what has left the group by a session of its own."""
    while mark and (found := list(Crowd(mark=mark)())):
        for process in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(Path(process).name), signal.SIGKILL)
