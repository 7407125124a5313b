"""A rollout: a checkpoint played on a list of cases; and the contract of whatever plays one."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from evopolicygym.core.episode import Episode, Failure
from evopolicygym.core.policy import PolicyContext
from evopolicygym.core.submission import LoadError, SubmissionStatus

ATTEMPTS = 3
"""How often a case is played whose simulator fails."""
FAILED = "failed"
MOST_PRINTED = 4000


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


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of a policy that was constructed and asked for one action, on a case that there is not."""

    error: LoadError | None = None
    """Why it could not be constructed; None where it could."""
    failure: Failure | None = None
    """How ``reset`` or ``act`` failed on an observation drawn at random from the space; None where neither did."""
    stdout: str = ""
    """The beginning of what it printed, ``MOST_PRINTED`` characters at the most."""
    stderr: str = ""
    load_s: float | None = None
    """Seconds until it was constructed; None where it could not be."""
    act_s: float | None = None
    """Seconds that it took to act; None where it did not come to that, or failed."""

    @property
    def status(self) -> str:
        """The status that its submission would have, or ``failed`` where only its episodes would fail."""
        return self.error.status.value if self.error else FAILED if self.failure else SubmissionStatus.OK.value


class Executor(Protocol):
    """Plays rollouts of one environment. Results don't depend on how many play at once."""

    @property
    def grounds(self) -> Grounds:
        """What was found here; known once the executor is open."""

    def load(self, checkpoint: Path, context: PolicyContext) -> LoadError | None:
        """Construct the policy once in the sandbox; return why it can't be, or None."""

    def check(self, checkpoint: Path, context: PolicyContext) -> Trial:
        """Construct the policy once in the sandbox, reset it, and ask it for one action; no case is played."""

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
