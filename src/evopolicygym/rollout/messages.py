"""What an executor and its workers say to each other."""

from dataclasses import dataclass
from pathlib import Path

from evopolicygym.core.environment import EnvironmentSpec
from evopolicygym.core.episode import Episode
from evopolicygym.core.policy import PolicyContext
from evopolicygym.core.rollout import EpisodeJob, Grounds
from evopolicygym.core.submission import LoadError
from evopolicygym.core.task import Limits


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """What a worker is told at its start."""

    spec: EnvironmentSpec
    limits: Limits
    isolation: str
    core: int | None
    """The processor that the worker and its policies are pinned to; None for any."""
    root: Path
    """A directory of the worker's own, which it makes."""


@dataclass(frozen=True, slots=True)
class Load:
    """Construct the policy once."""

    checkpoint: Path
    context: PolicyContext


@dataclass(frozen=True, slots=True)
class Play:
    """Play one case."""

    checkpoint: Path
    context: PolicyContext
    job: EpisodeJob


@dataclass(frozen=True, slots=True)
class Fault:
    """The simulator failed on a valid action, or the sandbox broke by itself."""

    message: str
    sandbox: bool = False


Reply = Grounds | LoadError | Episode | Fault | None
