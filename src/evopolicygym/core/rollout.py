"""A rollout: a checkpoint played on cases, what came of each case, and the contract of whatever plays one."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from evopolicygym.core.cases import Split
from evopolicygym.core.submission import LoadError, SubmissionStatus
from evopolicygym.core.task import PolicyContext
from evopolicygym.core.text import printable


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
    act_seconds: float | None = None
    """Processor time of one act of the policy, on average; None where the policy failed."""

    @property
    def timeless(self) -> "Episode":
        """The episode without its times, in which two plays of it differ."""
        return replace(self, seconds=0.0, act_seconds=None)

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


SHOWN_DIGITS = 12
"""Of a hash, where it is shown."""
_SHA256 = re.compile(r"\b[0-9a-f]{64}\b")


@dataclass(frozen=True, slots=True)
class OtherCode:
    """A module whose code is not the same in two places."""

    module: str
    here: str
    there: str


def brief(code: str) -> str:
    """Return a module's code as it is shown: its hash cut short."""
    return _SHA256.sub(lambda found: found[0][:SHOWN_DIGITS], code)


def other_code(here: Mapping[str, str], there: Mapping[str, str]) -> tuple[OtherCode, ...]:
    """Return the modules whose code differs, hashes cut short; none where a record doesn't name its code.

    Records from before code was hashed don't, and neither do those of environments that gymnasium alone makes.
    """
    if not here or not there:
        return ()
    pairs = {name: (here.get(name, "absent"), there.get(name, "absent")) for name in sorted(here.keys() | there.keys())}
    return tuple(OtherCode(name, brief(one), brief(two)) for name, (one, two) in pairs.items() if one != two)


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
    world_seed: int = 0
    """Seeds what a world draws once for an experiment; nothing in the standard world."""


@dataclass(frozen=True, slots=True)
class ExecutorInfo:
    """What an executor found on the machine on which it plays."""

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


Grounds = ExecutorInfo
"""The former name, kept for executors of other packages."""


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
    def grounds(self) -> ExecutorInfo:
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
