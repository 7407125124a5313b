"""Messages between an executor and its workers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from evopolicygym.core.causes import RULES, Cause
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
from evopolicygym.core.shortage import shortage_error
from evopolicygym.core.storage import describe_storage, storage_number
from evopolicygym.core.submission import LoadError
from evopolicygym.core.task import EnvironmentSpec, Limits, PolicyContext
from evopolicygym.sandbox.host import PolicyLibrary
from evopolicygym.sandbox.packages import policy_library


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """The configuration of a worker."""

    spec: EnvironmentSpec
    limits: Limits
    isolation: str
    core: int | None
    """The processor that the worker and its policies are pinned to; None for any."""
    root: Path
    """The worker's directory, which it creates."""
    hang_s: float
    """Seconds without progress after which the simulator is killed."""
    pinned: bool = True
    """Whether arithmetic of policies is pinned; for simulators, the worker's environment variables pin it."""
    library: PolicyLibrary = field(default_factory=policy_library)
    """Python of policies and the packages that they may import, from the executor: a pack's Python lacks them."""
    policy_versions: Mapping[str, str] = field(default_factory=dict)
    """Versions of additional distributions that policies may import, by name."""
    findings: Mapping[str, str] = field(default_factory=dict)
    """The executor's findings on the worker's machine."""
    interface: InterfaceDraw | None = None
    """The key and level from which the interface is drawn; None for the standard interface."""
    in_memory: Path | None = None
    """The executor's directory in memory, for a copy of what policies see; None: there is none."""


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
    """Whether the random anchor plays the whole case, since the simulator fails on the policy's unbounded actions."""


class Blame(StrEnum):
    """The cause of a fault."""

    SIMULATOR = "simulator"
    """It raised, hung, crashed or returned invalid values."""
    SANDBOX = "sandbox"
    """It can't be created here, or failed."""
    MACHINE = "machine"
    """A process was killed by a signal from outside."""
    STORAGE = "storage"
    """The files of an episode could not be written, such as on a full disk."""
    RECORD = "record"
    """A recorded episode is inconsistent."""
    USAGE = "usage"
    """The request is invalid: an unknown environment, a missing package."""


ERRORS: dict[Blame, type[EvoPolicyGymError]] = {
    Blame.SIMULATOR: EnvironmentFault,
    Blame.SANDBOX: SandboxError,
    Blame.MACHINE: SandboxError,
    Blame.STORAGE: StorageError,
    Blame.RECORD: RecordError,
    Blame.USAGE: UsageError,
}


CAUSES: dict[Blame, Cause] = {
    Blame.SIMULATOR: Cause.ENVIRONMENT,
    Blame.SANDBOX: Cause.MACHINE,
    Blame.MACHINE: Cause.MACHINE,
}
"""The causes of faults that another attempt may not have; a full disk would be just as full."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A worker's error that is not a failure of the policy."""

    message: str
    blame: Blame = Blame.SIMULATOR

    @property
    def attempts(self) -> int:
        """How often what failed is tried in all."""
        return RULES[CAUSES[self.blame]].attempts if self.blame in CAUSES else 1

    def error(self, before: str = "") -> EvoPolicyGymError:
        """Return the error to raise; its message begins with ``before``."""
        return ERRORS[self.blame](before + self.message)


def fault_of(error: BaseException) -> Fault:
    """Return the fault for an exception in a worker; exceptions of other packages come from the simulator."""
    match error:
        case SandboxError():
            return Fault(str(error), Blame.SANDBOX)
        case RecordError():
            return Fault(str(error), Blame.RECORD)
        case UsageError():
            return Fault(str(error), Blame.USAGE)
        case EvoPolicyGymError():
            return Fault(str(error))
        case _ if shortage := shortage_error(error):
            return Fault(str(shortage), Blame.SANDBOX)
        case OSError() if storage_number(error):
            path = Path(error.filename or Path.cwd())
            return Fault(f"Something could not be written. {describe_storage(error, path.absolute())}.", Blame.STORAGE)
        case _:
            return Fault(f"{type(error).__name__}: {error}")


Request = Load | Check | Play
Reply = ExecutorInfo | LoadError | Trial | Episode | Fault | None
