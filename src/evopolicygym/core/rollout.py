"""A rollout: a checkpoint played on a list of cases; and the contract of whatever plays one."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from evopolicygym.core.episode import Episode
from evopolicygym.core.policy import PolicyContext
from evopolicygym.core.submission import LoadError

ATTEMPTS = 3
"""How often a case is played whose simulator fails."""


class Recording(StrEnum):
    """What of an episode is written down beside its result."""

    TRAJECTORY = "trajectory"
    """Every step with its observation, as an agent reads it."""
    OUTPUT = "output"
    """What the policy printed and how it failed; no steps."""
    ACTIONS = "actions"
    """As ``output``, and actions and rewards as arrays: the rest can be played again from them."""


@dataclass(frozen=True, slots=True)
class EpisodeJob:
    """One case to be played. Holds a seed, so it never leaves the trusted side."""

    position: int
    """Its place in the rollout."""
    seed: int
    policy_seed: int
    directory: Path | None = None
    """Where its files go, complete or absent; None to write nothing."""
    recording: Recording = Recording.TRAJECTORY


@dataclass(frozen=True, slots=True)
class Grounds:
    """What an executor found where it plays."""

    observation_schema: Mapping[str, Any]
    action_schema: Mapping[str, Any]
    versions: Mapping[str, str]
    """What the numbers depend on: Python, numpy, gymnasium, the simulator's packages."""
    isolation: str
    """The level at which policies play: ``bubblewrap``, ``process`` or ``none``."""
    findings: Mapping[str, str] = field(default_factory=dict)
    """What the sandbox found it can enforce here, and what not."""
    allowed_imports: tuple[str, ...] = ()
    """Distributions a policy can import, as ``name==version``."""
    workers: int = 1
    simulator_code: Mapping[str, str] = field(default_factory=dict)
    """What else they depend on: the modules that make the environment, each with a hash of its files."""


class Executor(Protocol):
    """Plays rollouts of one environment. Results don't depend on how many play at once."""

    @property
    def grounds(self) -> Grounds:
        """What was found here; known once the executor is open."""

    def load(self, checkpoint: Path, context: PolicyContext) -> LoadError | None:
        """Construct the policy once in the sandbox; return why it can't be, or None."""

    def play(
        self,
        checkpoint: Path,
        context: PolicyContext,
        jobs: Sequence[EpisodeJob],
        repeated: Callable[[EpisodeJob, str], None],
    ) -> Iterator[tuple[EpisodeJob, Episode]]:
        """Play every job, yielding each as it ends, in any order.

        A case whose simulator fails on a valid action is played again, ``ATTEMPTS`` times in all; ``repeated`` is
        passed of each time, with the reason. Where the action space leaves open what is too large
        (``spaces.is_bounded``), the anchor then plays it alone, and the policy has failed.

        Raises ``EnvironmentFault`` where a simulator fails on valid actions, ``SandboxError`` where a sandbox breaks.
        """

    def close(self) -> None:
        """Stop all that was started and leave nothing behind."""
