"""The contracts of sandboxes: backends, their guarantees, the zygotes and the agent programs that they start.

A backend is a file of ``backends/`` that defines ``Backend``, an entry point of the group ``evopolicygym.sandboxes``,
or ``package.module:Backend``. It starts the zygote; every child of the zygote then applies the confinement to itself
(``rollout/guest/lockdown.py``). A ``ProgramBackend`` also has a sandbox for an agent's program.
"""

import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol, runtime_checkable

from evopolicygym.core.agent import AgentLimits
from evopolicygym.core.task import Limits
from evopolicygym.sandbox.host import PolicyLibrary
from evopolicygym.sandbox.overlays import Layers

JUDGE_PORT, MODEL_PORT = 8700, 8701
"""Ports of the judge and the model proxy in a sandbox with its own network."""
Serve = Callable[[socket.socket], Mapping[str, str]]
"""Serves on a listening socket; returns the environment variables with its address."""


class Guarantee(StrEnum):
    """A property of the sandbox that a backend guarantees."""

    HOST_FILES_HIDDEN = "host-files-hidden"
    """A policy reads the interpreter, the packages that it may import and its checkpoint, no other file of the host."""
    HOST_NAMES_HIDDEN = "host-names-hidden"
    """No variable, argument or path that a policy sees contains a name of the host."""
    NO_NETWORK = "no-network"
    """A policy reaches no network and no socket of this machine."""
    OTHER_PROCESSES_HIDDEN = "other-processes-hidden"
    """A policy can't see, read, trace or signal other processes."""
    PROCESS_NUMBERS_PRIVATE = "process-numbers-private"
    """The process numbers that a policy sees are its sandbox's, not the machine's."""
    NOTHING_LEFT = "nothing-left"
    """A later episode finds nothing that an episode wrote, started or marked."""
    NOTHING_SHARED = "nothing-shared"
    """Policies that play at the same time find no marks of each other, and can't measure the machine."""
    FILES_PRIVATE = "files-private"
    """No file that a policy or an agent's program can open is shared with another run, another role or the host."""
    SYSTEM_CALLS_FILTERED = "system-calls-filtered"
    """The kernel refuses all system calls that a policy doesn't need, among them those that start programs."""
    NO_PRIVILEGES = "no-privileges"
    """A policy has no capability and can get none."""
    MEMORY_LIMITED = "memory-limited"
    """A policy can't allocate more memory than its limit."""
    PROCESSES_LIMITED = "processes-limited"
    """A policy can't start processes, or more threads than its limit."""
    PROGRAM_LIMITED = "program-limited"
    """An agent's program has no privileges and can't exceed its limits."""
    PROGRAM_ENCLOSED = "program-enclosed"
    """An agent's program sees its workspace and the files that its command names, no simulator and nothing else of the
    host; it reaches only the judge and its model, can import what policies can, and ends with its turn."""


class SandboxFeature(StrEnum):
    """A feature of a sandbox that a machine or a backend may lack; a user may allow each to be missing, by name."""

    LANDLOCK = "landlock"
    """The kernel hides files from a process on request."""
    SECCOMP = "seccomp"
    """The kernel refuses system calls to a process on request."""
    PROGRAM_SANDBOX = "program-sandbox"
    """The backend has a sandbox for an agent's program."""


@dataclass(frozen=True, slots=True)
class WorkerDirectory:
    """A worker's directory on the host, from which a zygote is started."""

    root: Path
    """It contains the guest's code, links to the library, and the checkpoint that plays."""
    library: PolicyLibrary
    limits: Limits
    in_memory: Path | None = None
    """A directory in memory that all workers of a run have, for a copy of what policies see; None: there is none."""

    @property
    def runtime(self) -> Path:
        """The directory on the zygote's import path with the package ``guest``."""
        return self.root / "runtime"

    @property
    def packages(self) -> Path:
        """The directory on the zygote's import path with links to the library."""
        return self.root / "packages"

    @property
    def policy(self) -> Path:
        """The directory that is the import root of the policy's process."""
        return self.root / "policy"


@dataclass(frozen=True, slots=True)
class Confinement:
    """Rights that a policy's process gives up before it touches the checkpoint, as read by ``guest.lockdown``."""

    limits: Mapping[str, int] = field(default_factory=dict)
    """``resource`` limits by name."""
    landlock: Sequence[str] = ()
    """Paths, as seen by the process, that stay readable; empty: without Landlock."""
    seccomp: str = ""
    """A compiled filter program in hexadecimal; empty: without a filter."""
    own_process: int = 0
    """Placeholder in the filter for the process's own id, which the process fills in; 0: without one."""
    unprivileged: bool = False
    """Whether it gives up all capabilities and sets no_new_privs."""
    nice: int = 0
    """Increment of its niceness."""


@dataclass(frozen=True, slots=True)
class ZygoteView:
    """A started zygote, and the sandbox as it sees it."""

    process: "subprocess.Popen[bytes]"
    policy_path: str
    """The import root of the policy."""
    confinement: Confinement
    copies_checkpoint: bool = False
    """Whether it copies each checkpoint into memory at ``policy_path``; file numbers then don't count checkpoints."""
    layers: Layers | None = None
    """Layers of its overlays, to be removed when it has ended."""
    copy: Path | None = None
    """The copy of the machine's files that it sees; None: it sees others."""
    findings: Mapping[str, str] = field(default_factory=dict)
    """Findings on this sandbox, which replace the backend's of these names."""


class Backend(Protocol):
    """A way to sandbox policies."""

    guarantees: frozenset[Guarantee]
    """Its guarantees for policies and, if it is a ``ProgramBackend``, for an agent's program."""
    required_features: frozenset[SandboxFeature]
    """Features that it needs; if the machine lacks one, the backend is used only if the user allows that."""

    def findings(self) -> Mapping[str, str]:
        """Return what is enforced here, by name; raise ``SandboxError`` if the backend doesn't work here."""

    def policy_sandbox(self, ground: WorkerDirectory, control: int, environment: Mapping[str, str]) -> ZygoteView:
        """Start a zygote that inherits only the descriptor ``control`` and the given environment variables."""


@dataclass(frozen=True, slots=True)
class Program:
    """An agent's program to be started."""

    command: Sequence[str]
    workspace: Path
    limits: AgentLimits
    home: Path | None = None
    """Its home directory on this machine; None: a temporary one."""
    simulators: Sequence[str] = ()
    """Modules, by name or path, that it may not import, besides those hidden from all agents."""
    packages: Sequence[str] = ()
    """Distributions that its policies may import; it may import them too."""


@dataclass(frozen=True, slots=True)
class ProgramExit:
    """How a program ended by itself, or was ended by others."""

    code: int
    """Its exit code, negative for a signal."""
    limit: str = ""
    """A sentence with the limit of its own for which the kernel killed it; empty if none."""
    with_sandbox: bool = False
    """Whether its sandbox ended first, which nothing inside can bring about."""


class RunningProgram(Protocol):
    """A running program with all processes that it starts."""

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        """The started process; its ``stdout`` has the program's stdout and stderr."""

    @property
    def findings(self) -> Mapping[str, str]:
        """What is enforced on it, by name."""

    def limit_exceeded(self) -> str:
        """Return a sentence with the limit that it exceeded; empty if none. Called a few times a second."""

    def exited(self) -> ProgramExit | None:
        """Return how it ended; None while it runs. Call it before ``terminate``."""

    def terminate(self, grace_s: float) -> None:
        """Ask the program to end, kill its processes after the grace period, and return when none is left.

        Raises ``SandboxError`` if a process can't be killed.
        """


class ProgramSandbox(Protocol):
    """A sandbox for an agent's program."""

    @property
    def python(self) -> str:
        """The Python executable in the sandbox."""

    def preflight(self, program: Program, hidden: Sequence[Path]) -> Mapping[str, str]:
        """Check a program's sandbox before it starts; return findings, none if the sandbox hides nothing.

        Raises ``SandboxError`` if the program is not found, or a path of ``hidden`` is visible.
        """

    def start(self, program: Program, endpoints: Mapping[int, Serve]) -> RunningProgram:
        """Start a program; endpoints serve on sockets that it can reach.

        Keys are the endpoints' ports, if the sandbox has its own network. Raises ``SandboxError`` if the program can't
        be started or sandboxed.
        """


@runtime_checkable
class ProgramBackend(Backend, Protocol):
    """A backend with a sandbox for an agent's program. Other backends refuse agents that are programs."""

    def program_sandbox(self) -> ProgramSandbox:
        """Return the sandbox for an agent's program."""
