"""An agent's program without namespaces: a process in a separate session, which sees this machine like its user."""

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
    kill_on_failure,
    stub_arguments,
    stub_orders,
)
from evopolicygym.sandbox.seccomp import agent_filter


@dataclass(frozen=True, slots=True)
class PlainPrograms:
    """Starts programs with the host's files and network; a ``base.ProgramSandbox``."""

    confined: bool
    """Whether programs have no privileges, and limits as in namespaces."""

    @property
    def python(self) -> str:
        """The Python executable."""
        return sys.executable

    def preflight(self, program: Program, hidden: Sequence[Path]) -> Mapping[str, str]:  # noqa: ARG002 - the contract's
        """Return no findings: nothing is hidden."""
        return {}

    def start(self, program: Program, endpoints: Mapping[int, Serve]) -> StartedProgram:
        """Start a program, with endpoints on free ports of this machine's loopback."""
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
    """Start a program without namespaces, in a separate session; raise ``SandboxError`` if it can't be started.

    If it is ``confined``, it has no privileges, and limits as in namespaces.
    """
    inherited = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "USER") if name in os.environ}
    environment = {**inherited, **({"HOME": str(home)} if home else {}), **addresses}
    mark = next((f"{name}={address}" for name, address in addresses.items()), "").encode()
    if confined:
        return _start_confined(command, workspace, environment, mark, fit_to_machine(limits), home)
    try:
        process = _start_session(command, workspace, environment)
    except OSError as error:
        raise SandboxError(f"The agent's program {command[0]!r} can't be started: {error.strerror}.") from error
    return StartedProgram(process, process.pid, None, mark, Watch(workspace, limits, None, home))


def _start_confined(
    command: Sequence[str],
    workspace: Path,
    environment: Mapping[str, str],
    mark: bytes,
    limits: AgentLimits,
    home: Path | None,
) -> StartedProgram:
    """Start a program that first drops its privileges and sets its limits."""
    if not shutil.which(os.path.join(workspace, command[0]) if "/" in command[0] else command[0]):  # noqa: PTH118 - a word
        raise SandboxError(f"The agent's program {command[0]!r} can't be started: there is no such program.")
    group = cgroup.make(limits.processes, limits.memory_mb)
    ours, theirs = socket.socketpair()
    confinement = Confinement(seccomp=(agent_filter() or b"").hex(), unprivileged=True)
    orders = {
        **stub_orders(theirs, (), resource_limits(limits, namespaced=False), ()),
        "confinement": asdict(confinement),
        "lockdown": str(files("evopolicygym.rollout.guest") / "lockdown.py"),
    }
    line = [sys.executable, *stub_arguments(orders), *command]
    try:
        with ours, theirs:
            joining = group.join_command(line[0], line) if group else line
            process = _start_session(joining, workspace, environment, theirs.fileno())
            theirs.close()
            with kill_on_failure(process):
                findings = finish_handshake(
                    ours, (), lambda report: limit_findings(report, limits, group, namespaced=False)
                )
    except BaseException:
        if group:
            group.remove(GONE_S)
        raise
    watch = Watch(workspace, limits, None if group else ProcessGroup(mark=mark), home)
    return StartedProgram(process, process.pid, None, mark, watch, group, findings)


def _start_session(
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
