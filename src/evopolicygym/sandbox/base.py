"""The contract of an isolation backend: what it guarantees, where a zygote is started, what its children give up.

A backend is one file of ``backends/`` that defines ``Backend``, an entry point of the group ``evopolicygym.sandboxes``,
or ``package.module:Backend``. It starts the zygote; the confinement that it names is then applied by every child to
itself (``rollout/guest/lockdown.py``). A backend that also keeps an agent's program in is a ``ProgramBackend``. What
plays inside is not described here.
"""

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from evopolicygym.core.task import Limits
from evopolicygym.sandbox.confinement.layers import Layers
from evopolicygym.sandbox.confinement.walls import Wall
from evopolicygym.sandbox.guarantee import Guarantee
from evopolicygym.sandbox.program.contract import ProgramSandbox


@dataclass(frozen=True, slots=True)
class PolicyPython:
    """The Python that policies run on, and where its files lie."""

    program: str
    """The real path of its program."""
    version: str
    """Major and minor, such as ``3.11``."""
    standard_library: tuple[str, ...]
    """The entries of the standard library's directories."""
    bundled_libraries: tuple[str, ...]
    """Shared libraries that it brings along outside the system's directories."""


@dataclass(frozen=True, slots=True)
class PolicyLibrary:
    """Distributions that a policy may import, and where their files lie; the Python that they are made for."""

    paths: Mapping[str, Path]
    """Top-level names in site-packages (packages and their bundled libraries), and where they lie."""
    versions: tuple[str, ...]
    """As ``name==version``."""
    python: PolicyPython


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
    walls: frozenset[Wall]
    """What it needs of that which a machine may lack; where one is missing it isn't used, unless that is waived."""

    def findings(self) -> Mapping[str, str]:
        """Return what can be enforced here, by name; raise ``SandboxError`` where the backend can't work at all."""

    def policy_sandbox(self, ground: WorkerDirectory, control: int, environment: Mapping[str, str]) -> ZygoteView:
        """Start a zygote that inherits the descriptor ``control`` and the given environment variables, no others."""


@runtime_checkable
class ProgramBackend(Backend, Protocol):
    """A backend that also has a place for an agent's program. Without one, agents that are programs are refused."""

    def program_sandbox(self) -> ProgramSandbox:
        """Return what starts an agent's program and keeps it in."""
