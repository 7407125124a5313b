"""What an executor and its workers say to each other."""

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
from evopolicygym.core.rollout import Episode, EpisodeJob, Grounds, Trial
from evopolicygym.core.submission import LoadError
from evopolicygym.core.task import EnvironmentSpec, Limits, PolicyContext
from evopolicygym.sandbox.base import PolicyLibrary

NO_STORAGE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO})
"""How a system says that a disk takes no more."""


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """What a worker is given at its start."""

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
    library: PolicyLibrary = field(default_factory=lambda: PolicyLibrary({}, ()))
    """What policies may import, as it lies where the executor runs: a pack's own Python has none of it."""
    policy_versions: Mapping[str, str] = field(default_factory=dict)
    """Of distributions that policies may import besides those that all may."""
    findings: Mapping[str, str] = field(default_factory=dict)
    """What the executor found of where the worker runs."""


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
    """What an episode leaves could not be written, such as on a full disk."""
    RECORD = "record"
    """What was recorded, and is to be played again, is not what it says it is."""
    USAGE = "usage"
    """What was asked for can't be done: no such environment, a package is missing."""


ERRORS: dict[Blame, type[EvoPolicyGymError]] = {
    Blame.SIMULATOR: EnvironmentFault,
    Blame.SANDBOX: SandboxError,
    Blame.STORAGE: StorageError,
    Blame.RECORD: RecordError,
    Blame.USAGE: UsageError,
}


@dataclass(frozen=True, slots=True)
class Fault:
    """What went wrong in a worker, other than a policy's failure."""

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
Reply = Grounds | LoadError | Trial | Episode | Fault | None
