"""One case, played from reset to termination or truncation, what came of it, and what a hidden split has played."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from evopolicygym.core.cases import Split
from evopolicygym.core.printable import printable


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
    def ended(self) -> str:
        """How it ended: in a word, whether that was a success, and where the policy failed, in a line why."""
        if self.failure:
            return f"failed: {self.failure.reason}: {printable(self.failure.message)}"
        return ("terminated" if self.terminated else "truncated") + (", success" if self.succeeded else "")

    @property
    def succeeded(self) -> bool | None:
        """Whether the policy succeeded: never where it failed, as random actions then finished; None as ``success``.

        Older records hold ``success`` of such an episode as the environment had it.
        """
        return None if self.success is None else self.success and self.failure is None


@dataclass(frozen=True, slots=True)
class HiddenRollout:
    """What one checkpoint has played of a hidden split so far."""

    split: Split
    checkpoint: str
    episodes: tuple[Episode | None, ...]

    @property
    def missing(self) -> tuple[int, ...]:
        """Indices of cases not yet played."""
        return tuple(index for index, episode in enumerate(self.episodes) if episode is None)

    @property
    def returns(self) -> tuple[float, ...]:
        """Returns of the cases played so far, in the split's order."""
        return tuple(episode.episode_return for episode in self.episodes if episode)


def failures(what: str, episodes: Sequence[Episode | None]) -> str:
    """Return in a line how many episodes a policy failed in, and how; empty where it failed in none.

    ``what`` is what the episodes are called, such as ``held-out episodes``.
    """
    found = [episode.failure for episode in episodes if episode and episode.failure]
    if not found:
        return ""
    kinds = Counter(f"{failure.reason}: {failure.message}" for failure in found)
    most_common, times = kinds.most_common(1)[0]
    most = f"; {times} of them" if len(kinds) > 1 else ""
    return f"{len(found)} of {len(episodes)} {what} failed{most}: {most_common}"
