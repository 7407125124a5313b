"""The contracts of a sandbox: what a backend guarantees, where it starts a zygote, what keeps an agent's program in.

A backend is one file of ``backends/`` that defines ``Backend``, an entry point of the group ``evopolicygym.sandboxes``,
or ``package.module:Backend``. It starts the zygote; the confinement that it names is then applied by every child to
itself (``rollout/guest/lockdown.py``). A backend that also keeps an agent's program in is a ``ProgramBackend``, whose
``program_sandbox`` starts programs. Agents say what a program's end means.
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
"""Where the judge and the model answer inside a sandbox that has a network of its own."""
Serve = Callable[[socket.socket], Mapping[str, str]]
"""Answers on a listening socket; returns the environment variables by which a program finds it."""


class Guarantee(StrEnum):
    """One thing that a backend holds policies, or an agent's program, to."""

    HOST_FILES_HIDDEN = "host-files-hidden"
    """A policy reads the interpreter, the packages that it may import and its checkpoint, no other file of the host."""
    HOST_NAMES_HIDDEN = "host-names-hidden"
    """No variable, argument or path that a policy sees names anything of the host."""
    NO_NETWORK = "no-network"
    """A policy reaches no network and no socket of this machine."""
    OTHER_PROCESSES_HIDDEN = "other-processes-hidden"
    """A policy neither sees, reads, traces nor signals a process that is not its own."""
    PROCESS_NUMBERS_PRIVATE = "process-numbers-private"
    """The process numbers that a policy sees are its sandbox's, not the machine's."""
    NOTHING_LEFT = "nothing-left"
    """Nothing that an episode writes, starts or marks is found by a later one."""
    NOTHING_SHARED = "nothing-shared"
    """Policies that play at the same time find no mark of each other, nor measurements of the machine."""
    FILES_PRIVATE = "files-private"
    """No file that a policy or an agent's program can open is one that another run, another role or the host has."""
    SYSTEM_CALLS_FILTERED = "system-calls-filtered"
    """The kernel refuses a policy every system call that it doesn't need, among them those that start programs."""
    NO_PRIVILEGES = "no-privileges"
    """A policy has no capability and can get none."""
    MEMORY_LIMITED = "memory-limited"
    """A policy that takes more memory than it may is refused it."""
    PROCESSES_LIMITED = "processes-limited"
    """A policy starts no process, and no more threads than it may."""
    PROGRAM_LIMITED = "program-limited"
    """An agent's program has no privileges and is held to its limits."""
    PROGRAM_ENCLOSED = "program-enclosed"
    """An agent's program sees its workspace and what its command names, no simulator and nothing else of the host; it
    reaches the judge and its model alone, can import what its run's policies can, and nothing of it outlives a turn."""


class SandboxFeature(StrEnum):
    """A feature of a sandbox that a machine or a backend may lack; a user may allow each to be missing, by name."""

    LANDLOCK = "landlock"
    """The kernel hides files from a process that asked for it."""
    SECCOMP = "seccomp"
    """The kernel refuses system calls to a process that asked for it."""
    PROGRAM_SANDBOX = "program-sandbox"
    """An agent's program is kept in: no machine lacks that, but a backend may."""


@dataclass(frozen=True, slots=True)
class WorkerDirectory:
    """A worker's own directory on the host, from which a zygote is started."""

    root: Path
    """``runtime/`` holds the guest's code, ``packages/`` links to the library, ``policy/`` the checkpoint on play."""
    library: PolicyLibrary
    limits: Limits

    @property
    def runtime(self) -> Path:
        """The directory on the zygote's import path that holds the package ``guest``."""
        return self.root / "runtime"

    @property
    def packages(self) -> Path:
        """The directory on the zygote's import path that holds links to the library."""
        return self.root / "packages"

    @property
    def policy(self) -> Path:
        """The directory whose content the policy's process sees as its import root."""
        return self.root / "policy"


@dataclass(frozen=True, slots=True)
class Confinement:
    """What a policy's process gives up before it touches the checkpoint, as ``guest.lockdown`` reads it."""

    limits: Mapping[str, int] = field(default_factory=dict)
    """Names of ``resource`` limits and their amounts."""
    landlock: Sequence[str] = ()
    """Paths, as the process sees them, that stay readable; empty for no Landlock."""
    seccomp: str = ""
    """A compiled filter program in hexadecimal; empty for none."""
    own_process: int = 0
    """The number that stands in the filter for the process's own, which it puts there itself; 0 for none."""
    unprivileged: bool = False
    """Whether it gives up every capability, and that any program it starts has more rights than it."""
    nice: int = 0
    """How much further back it stands in the queue for a processor."""


@dataclass(frozen=True, slots=True)
class ZygoteView:
    """What a zygote's world looks like to itself."""

    process: "subprocess.Popen[bytes]"
    policy_path: str
    """The import root of the policy."""
    confinement: Confinement
    copies_checkpoint: bool = False
    """Whether it copies each checkpoint into memory at ``policy_path``, so that its files tell of no other."""
    layers: Layers | None = None
    """Where the layers of its overlays lie, to be removed when it has ended."""


class Backend(Protocol):
    """One way to keep a policy in."""

    guarantees: frozenset[Guarantee]
    """What it holds policies to, and an agent's program where it is a ``ProgramBackend``."""
    walls: frozenset[SandboxFeature]
    """Features that it needs and a machine may lack; where one is missing, it is used only if the user allows that."""

    def findings(self) -> Mapping[str, str]:
        """Return what can be enforced here, by name; raise ``SandboxError`` where the backend can't work at all."""

    def policy_sandbox(self, ground: WorkerDirectory, control: int, environment: Mapping[str, str]) -> ZygoteView:
        """Start a zygote that inherits the descriptor ``control`` and the given environment variables, no others."""


@dataclass(frozen=True, slots=True)
class Program:
    """What is started, and what it may use."""

    command: Sequence[str]
    workspace: Path
    limits: AgentLimits
    home: Path | None = None
    """A directory of this machine that is its home; None for a home that is gone with the program."""
    simulators: Sequence[str] = ()
    """Modules that it may not import besides those that no agent may, by their names or paths."""
    packages: Sequence[str] = ()
    """Distributions that its policies may import, so that it may too."""


class RunningProgram(Protocol):
    """A program at work, with all that it starts."""

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        """What was started; the program's stdout and stderr come out of its ``stdout``."""

    @property
    def findings(self) -> Mapping[str, str]:
        """What was found to keep it in, by name."""

    def limit_exceeded(self) -> str:
        """Return in a sentence which limit it passed; empty where none. Asked a few times a second."""

    def terminate(self, grace_s: float) -> None:
        """Ask it to end, kill what is left after the grace, and return once nothing of it runs.

        Raises ``SandboxError`` where something of it can't be ended.
        """


class ProgramSandbox(Protocol):
    """Starts an agent's program and keeps it in."""

    @property
    def python(self) -> str:
        """How a command calls a Python in there."""

    def preflight(self, program: Program, hidden: Sequence[Path]) -> Mapping[str, str]:
        """Look around before a program does; return what was found, nothing where nothing is hidden.

        Raises ``SandboxError`` where the program isn't there, or would see what it must not: a path of ``hidden``.
        """

    def start(self, program: Program, endpoints: Mapping[int, Serve]) -> RunningProgram:
        """Start a program; whatever answers it is served on sockets that are made where the program reaches them.

        The numbers are their ports where the sandbox has a network of its own. Raises ``SandboxError`` where the
        program can't be started, or not be kept in as it should.
        """


@runtime_checkable
class ProgramBackend(Backend, Protocol):
    """A backend that also has a place for an agent's program. Without one, agents that are programs are refused."""

    def program_sandbox(self) -> ProgramSandbox:
        """Return what starts an agent's program and keeps it in."""
