"""An agent's program without namespaces: a process of its own session, with or without privileges and limits.

What it sees is this machine, as its user does. A program in namespaces is not here but in ``enclosed.py``.
"""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path

from evopolicygym.core.agent import AgentLimits
from evopolicygym.core.errors import SandboxError
from evopolicygym.sandbox import cgroup
from evopolicygym.sandbox.base import Confinement, Program, Serve
from evopolicygym.sandbox.limits import ProcessGroup, Watch, fit_to_machine, limit_findings, resource_limits
from evopolicygym.sandbox.program.started import (
    GONE_S,
    StartedProgram,
    finish_handshake,
    killed_on_failure,
    stub_arguments,
    stub_orders,
)
from evopolicygym.sandbox.seccomp import agent_filter


@dataclass(frozen=True, slots=True)
class PlainPrograms:
    """Starts programs beside us, as ``base.ProgramSandbox`` has it; the host's files and network are theirs."""

    confined: bool
    """Whether a program has no privileges, and limits as in a sandbox."""

    @property
    def python(self) -> str:
        """How a command calls a Python."""
        return sys.executable

    def preflight(self, program: Program, hidden: Sequence[Path]) -> Mapping[str, str]:  # noqa: ARG002 - the contract's
        """Return nothing: nothing is hidden."""
        return {}

    def start(self, program: Program, endpoints: Mapping[int, Serve]) -> StartedProgram:
        """Start a program; what answers it is served on ports of this machine's loopback that are free."""
        addresses: dict[str, str] = {}
        for serve in endpoints.values():
            addresses |= serve(socket.create_server(("127.0.0.1", 0)))
        return plain(
            program.command, program.workspace, addresses, program.limits, program.home, confined=self.confined
        )


def plain(
    command: Sequence[str],
    workspace: Path,
    addresses: Mapping[str, str],
    limits: AgentLimits,
    home: Path | None = None,
    *,
    confined: bool = False,
) -> StartedProgram:
    """Start a program without namespaces, in a session of its own; raise ``SandboxError`` where it can't be started.

    Where it is ``confined``, it has no privileges, and limits as in a sandbox.
    """
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "USER") if name in os.environ}
    environment = {**kept, **({"HOME": str(home)} if home else {}), **addresses}
    mark = next((f"{name}={address}" for name, address in addresses.items()), "").encode()
    if confined:
        return _confined(command, workspace, environment, mark, fit_to_machine(limits), home)
    try:
        process = _by_itself(command, workspace, environment)
    except OSError as error:
        raise SandboxError(f"The agent's program {command[0]!r} can't be started: {error.strerror}.") from error
    return StartedProgram(process, process.pid, None, mark, Watch(workspace, limits, None, home))


def _confined(
    command: Sequence[str],
    workspace: Path,
    environment: Mapping[str, str],
    mark: bytes,
    limits: AgentLimits,
    home: Path | None,
) -> StartedProgram:
    """Start a program that first gives up what a plain process can."""
    if not shutil.which(os.path.join(workspace, command[0]) if "/" in command[0] else command[0]):  # noqa: PTH118 - a word
        raise SandboxError(f"The agent's program {command[0]!r} can't be started: there is no such program.")
    group = cgroup.make(limits.processes, limits.memory_mb)
    ours, theirs = socket.socketpair()
    given_up = Confinement(seccomp=(agent_filter() or b"").hex(), unprivileged=True)
    asked = {
        **stub_orders(theirs, (), resource_limits(limits, namespaced=False), ()),
        "confinement": asdict(given_up),
        "lockdown": str(files("evopolicygym.rollout.guest") / "lockdown.py"),
    }
    line = [sys.executable, *stub_arguments(asked), *command]
    try:
        with ours, theirs:
            joining = group.joined_by(line[0], line) if group else line
            process = _by_itself(joining, workspace, environment, theirs.fileno())
            theirs.close()
            with killed_on_failure(process):
                held = finish_handshake(ours, (), lambda held: limit_findings(held, limits, group, namespaced=False))
    except BaseException:
        if group:
            group.remove(GONE_S)
        raise
    watch = Watch(workspace, limits, None if group else ProcessGroup(mark=mark), home)
    return StartedProgram(process, process.pid, None, mark, watch, group, held)


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
