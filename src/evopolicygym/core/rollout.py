"""Rollouts: jobs, results of episodes, and the interface of executors that play them."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from evopolicygym.core.cases import Split
from evopolicygym.core.causes import RULES, Cause
from evopolicygym.core.interface import InterfaceDraw
from evopolicygym.core.submission import LoadError, SubmissionStatus
from evopolicygym.core.task import PolicyContext
from evopolicygym.core.text import printable


class FailureReason(StrEnum):
    """Why a policy failed. The failed episode is played to its end by the anchor policy, and marked."""

    ERROR = "error"
    """It raised an exception."""
    INVALID_ACTION = "invalid_action"
    """It returned something that is not an action."""
    TIMEOUT = "timeout"
    """It exceeded a time limit."""
    MEMORY = "memory"
    """It exceeded the memory limit."""
    DIED = "died"
    """Its process ended, or it broke the pipe protocol."""


@dataclass(frozen=True, slots=True)
class Failure:
    """How a policy failed."""

    reason: FailureReason
    message: str
    """One line of bounded length."""
    step: int = 0
    """The step at which it failed; 0 before the first step."""
    traceback: str = ""
    """The traceback printed by the policy's process, bounded; may be empty."""


@dataclass(frozen=True, slots=True)
class Episode:
    """The result of an episode."""

    episode_return: float
    """The undiscounted sum of its rewards."""
    length: int
    """Number of steps, including those of the anchor policy; 0 if unknown."""
    terminated: bool
    truncated: bool
    """Of an episode whose end is unknown, neither this nor ``terminated`` is true."""
    trajectory_sha256: str
    """Hash of observations, actions, rewards and endings as raw arrays; empty if unknown, as the times then are."""
    success: bool | None = None
    """None if the environment has no success rule."""
    failure: Failure | None = None
    actions_clipped: int = 0
    """Number of steps whose action was clipped to its Box."""
    reward_components: Mapping[str, float] = field(default_factory=dict)
    """Sums over the episode of the reward's declared components."""
    seconds: float = 0.0
    """Wall time, including the environment's reset."""
    act_seconds: float | None = None
    """Mean processor time of a call of ``act``; None if the policy failed."""

    @property
    def timeless(self) -> "Episode":
        """The episode without its times, which differ between repetitions."""
        return replace(self, seconds=0.0, act_seconds=None)

    @property
    def ended(self) -> str:
        """How it ended, in one line: the kind of end, success, or the failure."""
        if self.failure:
            return f"failed: {self.failure.reason}: {printable(self.failure.message)}"
        end = "terminated" if self.terminated else "truncated" if self.truncated else "end unknown"
        return end + (", success" if self.succeeded else "")

    @property
    def succeeded(self) -> bool | None:
        """Whether the policy succeeded; None if the environment has no success rule.

        False if the policy failed, because the anchor policy finished the episode.
        """
        return None if self.success is None else self.success and self.failure is None


@dataclass(frozen=True, slots=True)
class HiddenRollout:
    """The episodes that a checkpoint has played of a hidden split so far."""

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
    """Return a line about the episodes in which a policy failed; empty if there are none.

    ``what`` names the episodes, such as ``held-out episodes``.
    """
    failed = [episode.failure for episode in episodes if episode and episode.failure]
    if not failed:
        return ""
    kinds = Counter(f"{failure.reason}: {failure.message}" for failure in failed)
    most_common, times = kinds.most_common(1)[0]
    most = f"; {times} of them" if len(kinds) > 1 else ""
    return f"{len(failed)} of {len(episodes)} {what} failed{most}: {most_common}"


SHOWN_DIGITS = 12
"""Digits of a hash in messages."""
_SHA256 = re.compile(r"\b[0-9a-f]{64}\b")


@dataclass(frozen=True, slots=True)
class OtherCode:
    """A module whose code differs in two places."""

    module: str
    here: str
    there: str


def brief(code: str) -> str:
    """Return a module's version for a message, with its hash shortened."""
    return _SHA256.sub(lambda match: match[0][:SHOWN_DIGITS], code)


def other_code(here: Mapping[str, str], there: Mapping[str, str]) -> tuple[OtherCode, ...]:
    """Return the modules whose code differs, with shortened hashes; none if one side lists no modules.

    Environments that gymnasium alone creates list none.
    """
    if not here or not there:
        return ()
    pairs = {name: (here.get(name, "absent"), there.get(name, "absent")) for name in sorted(here.keys() | there.keys())}
    return tuple(
        OtherCode(name, brief(ours), brief(theirs)) for name, (ours, theirs) in pairs.items() if ours != theirs
    )


ATTEMPTS = RULES[Cause.ENVIRONMENT].attempts
"""Attempts at a case whose simulator fails."""
FAILED = "failed"
MOST_PRINTED = 4000


class Recording(StrEnum):
    """What is recorded of an episode in addition to its result."""

    TRAJECTORY = "trajectory"
    """Every step with its observation, for agents to read."""
    OUTPUT = "output"
    """The policy's output and failure; no steps."""
    ACTIONS = "actions"
    """As ``output``, with actions and rewards as arrays, from which an episode can be replayed."""


@dataclass(frozen=True, slots=True)
class EpisodeJob:
    """A case to play. Contains a seed, so it stays on the trusted side."""

    position: int
    """Its position in the rollout."""
    seed: int
    policy_seed: int
    directory: Path | None = None
    """The directory for its files; None to write none."""
    recording: Recording = Recording.TRAJECTORY
    world_seed: int = 0
    """Seeds what a world draws once for an experiment; nothing in the standard world."""
    most_s: float = 0.0
    """Seconds that the policy may take over the whole episode, or else the anchor plays it from its start; 0 for no
    such limit."""
    interface: InterfaceDraw | None = None
    """What its interface is drawn from, where one executor plays several; None for the executor's own."""


@dataclass(frozen=True, slots=True, eq=False)
class Rollout:
    """Cases that are played by one policy."""

    checkpoint: Path
    """The policy's directory."""
    context: PolicyContext
    jobs: Sequence[EpisodeJob]


@dataclass(frozen=True, slots=True)
class ExecutorInfo:
    """What an executor offers on its machine."""

    observation_schema: Mapping[str, Any]
    action_schema: Mapping[str, Any]
    versions: Mapping[str, str]
    """Versions that results depend on: Python, numpy, gymnasium, the simulator's packages."""
    isolation: str
    """The sandbox backend of policies: ``bubblewrap``, ``process`` or ``none``."""
    findings: Mapping[str, str] = field(default_factory=dict)
    """What the sandbox can and can't enforce here."""
    allowed_imports: tuple[str, ...] = ()
    """Distributions a policy can import, as ``name==version``."""
    workers: int = 1
    simulator_code: Mapping[str, str] = field(default_factory=dict)
    """The modules that create the environment, each with a hash of its files."""
    interface: Mapping[str, Any] = field(default_factory=dict)
    """The interface that was drawn, as data (``core/interface.py``); empty for the standard one."""


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of a trial: a policy was constructed and acted once, on an observation that belongs to no case."""

    error: LoadError | None = None
    """Why it could not be constructed; None if it could."""
    failure: Failure | None = None
    """How ``reset`` or ``act`` failed on a random observation of the space; None if neither did."""
    stdout: str = ""
    """The first ``MOST_PRINTED`` characters of its output."""
    stderr: str = ""
    load_s: float | None = None
    """Seconds of its construction; None if that failed."""
    act_s: float | None = None
    """Seconds of ``act``; None if it was not called or failed."""

    @property
    def status(self) -> str:
        """The status that a submission would have, or ``failed`` if only its episodes would fail."""
        return self.error.status.value if self.error else FAILED if self.failure else SubmissionStatus.OK.value


class Executor(Protocol):
    """Plays rollouts of one environment. Results don't depend on the number of workers."""

    @property
    def info(self) -> ExecutorInfo:
        """What the executor offers; known once it is open."""

    def load(self, checkpoint: Path, context: PolicyContext) -> LoadError | None:
        """Construct the policy once in the sandbox; return the error, or None."""

    def check(self, checkpoint: Path, context: PolicyContext) -> Trial:
        """Construct the policy once in the sandbox, reset it, and have it act once; no case is played."""

    def play(
        self, rollouts: Sequence[Rollout], repeated: Callable[[Rollout, EpisodeJob, str], None]
    ) -> Iterator[tuple[Rollout, EpisodeJob, Episode]]:
        """Play every job of all rollouts, yielding each as it ends, in any order.

        No worker waits for the last episodes of a rollout: it begins with the next one.

        A case whose simulator fails on a valid action is played at most ``ATTEMPTS`` times, one whose policy or worker
        was killed from outside twice (``core.causes``); ``repeated`` is called for each repetition with the reason. If
        a simulator fails by itself and the action space is unbounded (``spaces.is_bounded``), the anchor policy then
        plays the case, and the policy counts as failed.

        Raises ``EnvironmentFault`` if a simulator fails on valid actions, ``SandboxError`` if a sandbox fails.
        """

    def close(self) -> None:
        """Stop all processes and remove temporary files."""


WITHOUT, AND = " without ", " and "
UNVERIFIED = "none"
"""The backend that is not a sandbox; scores made with it are marked as unverified."""


@dataclass(frozen=True, slots=True)
class Isolation:
    """The name of a sandbox backend, and its features that may be missing, or in a record, that were missing.

    Records, files and the command line have it as text, such as ``bubblewrap`` or ``bubblewrap without seccomp``.
    """

    backend: str
    missing: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, text: str) -> "Isolation":
        """Return the isolation that a text names."""
        backend, _, features = text.partition(WITHOUT)
        return cls(backend, frozenset(feature.strip() for feature in features.split(AND) if feature.strip()))

    def __str__(self) -> str:
        return f"{self.backend}{WITHOUT}{AND.join(sorted(self.missing))}" if self.missing else self.backend


WEAKER = "weaker"
"""Name of the finding on guarantees of a backend, or of a stronger one, that a machine doesn't keep, and what would."""


def is_unverified(isolation: str) -> bool:
    """Return whether scores made with an isolation are marked as unverified."""
    return Isolation.parse(isolation).backend == UNVERIFIED
