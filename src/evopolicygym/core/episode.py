"""One case, played from reset to termination or truncation, and what came of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class FailureReason(StrEnum):
    """Why a policy failed. The anchor then plays the episode to its end, and the episode is marked."""

    ERROR = "error"
    """It raised."""
    INVALID_ACTION = "invalid_action"
    """What it returned can't be read as an action."""
    TIMEOUT = "timeout"
    """It ran out of time."""
    MEMORY = "memory"
    """It ran out of memory."""
    DIED = "died"
    """Its process ended, or broke the channel."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A policy's failure, as data."""

    reason: FailureReason
    message: str
    """One line, bounded."""
    step: int = 0
    """The step at which it failed; 0 where it failed before the first."""
    traceback: str = ""
    """As the policy's process printed it, bounded; empty where it died without a word."""


@dataclass(frozen=True, slots=True)
class Episode:
    """What came of one case."""

    episode_return: float
    """The undiscounted sum of its rewards."""
    length: int
    """Steps played, those of the anchor included."""
    terminated: bool
    truncated: bool
    trajectory_sha256: str
    """Over observations, actions, rewards and endings, as raw arrays: equal for equal trajectories, bit for bit."""
    success: bool | None = None
    """None where the environment knows no success."""
    failure: Failure | None = None
    actions_clipped: int = 0
    """Steps whose action was clipped into its Box."""
    reward_components: Mapping[str, float] = field(default_factory=dict)
    """Sums over the episode of the parts of the reward that the spec declares."""
    seconds: float = 0.0
    """Wall time, the environment's reset included."""

    @property
    def succeeded(self) -> bool | None:
        """Whether the policy succeeded: never where it failed, as random actions then finished; None as ``success``.

        Older records hold ``success`` of such an episode as the environment had it.
        """
        return None if self.success is None else self.success and self.failure is None
