"""Messages between an executor and its workers."""

import errno
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from evopolicygym.core.errors import (
    EnvironmentFault,
    EvoPolicyGymError,
    RecordError,
    SandboxError,
    StorageError,
    UsageError,
)
from evopolicygym.core.interface import InterfaceDraw
from evopolicygym.core.rollout import Episode, EpisodeJob, ExecutorInfo, Trial
from evopolicygym.core.submission import LoadError
from evopolicygym.core.task import EnvironmentSpec, Limits, PolicyContext
from evopolicygym.sandbox.host import PolicyLibrary
from evopolicygym.sandbox.packages import policy_library

NO_STORAGE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO})
"""Error numbers of a full disk."""


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """The configuration of a worker."""

    spec: EnvironmentSpec
    limits: Limits
    isolation: str
    core: int | None
    """The processor that the worker and its policies are pinned to; None for any."""
    root: Path
    """A directory of the worker's own, which it makes."""
    hang_s: float
    """Seconds after which a simulator that makes no progress is given up."""
    pinned: bool = True
    """Whether policies compute alike on every processor; the worker's own environment settles it for simulators."""
    library: PolicyLibrary = field(default_factory=policy_library)
    """Python of policies and packages that they may import, as the executor has them: a pack's Python lacks them."""
    policy_versions: Mapping[str, str] = field(default_factory=dict)
    """Names of additional distributions that policies may import."""
    findings: Mapping[str, str] = field(default_factory=dict)
    """The executor's findings on the worker's machine."""
    interface: InterfaceDraw | None = None
    """What the interface is drawn from; None for the standard one."""


@dataclass(frozen=True, slots=True)
class Load:
    """Construct the policy once."""

    checkpoint: Path
    context: PolicyContext


@dataclass(frozen=True, slots=True)
class Check:
    """Construct the policy once, and have it act once without an environment."""

    checkpoint: Path
    context: PolicyContext


@dataclass(frozen=True, slots=True)
class Play:
    """Play one case."""

    checkpoint: Path
    context: PolicyContext
    job: EpisodeJob
    without_policy: bool = False
    """Whether the anchor plays all of it, as the simulator fails on the policy's actions, which nothing bounds."""


class Blame(StrEnum):
    """Whose fault it is that a worker can't do what it was asked."""

    SIMULATOR = "simulator"
    """It raised, hung, crashed or answered nonsense."""
    SANDBOX = "sandbox"
    """It can't be made here, or broke by itself."""
    STORAGE = "storage"
    """The files of an episode could not be written, such as on a full disk."""
    RECORD = "record"
    """A record to be replayed is inconsistent."""
    USAGE = "usage"
    """The request is invalid: an unknown environment, a missing package."""


ERRORS: dict[Blame, type[EvoPolicyGymError]] = {
    Blame.SIMULATOR: EnvironmentFault,
    Blame.SANDBOX: SandboxError,
    Blame.STORAGE: StorageError,
    Blame.RECORD: RecordError,
    Blame.USAGE: UsageError,
}


@dataclass(frozen=True, slots=True)
class Fault:
    """An error of a worker that is not a policy's failure."""

    message: str
    blame: Blame = Blame.SIMULATOR

    def error(self, before: str = "") -> EvoPolicyGymError:
        """Return the error that tells of it, after some words of the caller's."""
        return ERRORS[self.blame](before + self.message)


def fault_of(error: Exception) -> Fault:
    """Return what an exception in a worker is called; what is none of ours came from the simulator."""
    match error:
        case SandboxError():
            return Fault(str(error), Blame.SANDBOX)
        case RecordError():
            return Fault(str(error), Blame.RECORD)
        case UsageError():
            return Fault(str(error), Blame.USAGE)
        case EvoPolicyGymError():
            return Fault(str(error))
        case OSError(errno=number) if number in NO_STORAGE:
            return Fault(f"An episode could not be written: {error}", Blame.STORAGE)
        case _:
            return Fault(f"{type(error).__name__}: {error}")


Request = Load | Check | Play
Reply = ExecutorInfo | LoadError | Trial | Episode | Fault | None
