"""A task: an environment with a budget of episodes and limits, as an agent and a policy meet it. It holds no seed."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any

from evopolicygym.core.errors import RefusalStatus, RequestRefused, UsageError
from evopolicygym.core.world import World


class TaskKind(StrEnum):
    """What a task asks for (the paper's split)."""

    TUNING = "tuning"
    """Gains and thresholds of a controller of known form."""
    SYNTHESIS = "synthesis"
    """Perception, memory or planning has to be built."""
    UNKNOWN = ""
    """Of an environment of which no more than its name is known; no spec has it."""


class TaskText(StrEnum):
    """How much of an environment its texts say."""

    FULL = "full"
    """All that a reader of its source would know, constants and equations too."""
    TERSE = "terse"
    """What is seen, what can be done, what is rewarded and when it ends, in words."""


class TaskInterface(StrEnum):
    """How an environment's spaces are shown (``core/interface.py``)."""

    STANDARD = "standard"
    """As gymnasium has them."""
    PERMUTED = "permuted"
    """Changed by a bijection that the experiment's secret draws; the text says which."""
    ANONYMOUS = "anonymous"
    """Changed so, and without names, meanings and words."""


class SuccessRule(StrEnum):
    """How the environment itself tells that an episode succeeded."""

    INFO = "info"
    """``info[key]`` is true after the last step."""
    INFO_WITHOUT_CRASH = "info_without_crash"
    """The same, and ``info["crashed"]`` is false: some environments report a goal that was crashed into."""
    TERMINATED = "terminated"
    """The episode terminated, as against ran out of steps."""
    POSITIVE_RETURN = "positive_return"
    """The return is above zero."""

    @property
    def has_key(self) -> bool:
        """Whether it reads a key of ``info`` that the spec names."""
        return self in {SuccessRule.INFO, SuccessRule.INFO_WITHOUT_CRASH}


@dataclass(frozen=True, slots=True)
class Success:
    """When an episode counts as a success."""

    rule: SuccessRule
    key: str = ""
    """The key of ``info`` for the rules ``info`` and ``info_without_crash``."""
    meaning: str = ""
    """What success means in the environment's own terms, in a few words."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """The mean return of a known policy, to hold scores against."""

    mean: float
    standard_error: float
    """Standard error of the mean over ``episodes`` cases."""
    episodes: int
    success_rate: float | None = None
    """None where the environment knows no success, or where it was not measured."""


@dataclass(frozen=True, slots=True)
class EnvironmentSpec:
    """The whole of an environment, as data; read from ``specs/<name>.toml``."""

    name: str
    id: str
    """What ``gymnasium.make`` is given; ``module:Id`` imports the module first."""
    family: str
    """Groups rows on the leaderboard."""
    kind: TaskKind
    max_steps: int
    """An episode is truncated after so many steps."""
    objective: str
    reward: str
    termination: str
    observation: tuple[str, ...]
    """One meaning for each element, or sentences where elements can't be named singly."""
    action: tuple[str, ...]
    """One meaning for each value (Discrete) or element (Box)."""
    idle_action: Any
    """The zero or no-op action, as JSON; what the idle anchor plays."""
    extra: str = ""
    """The optional dependency of ours that brings the simulator; empty where the core has it."""
    imports: tuple[str, ...] = ()
    """Modules whose import registers the id with gymnasium."""
    arguments: dict[str, Any] = field(default_factory=dict)
    """Further arguments of ``gymnasium.make``."""
    reward_components: tuple[str, ...] = ()
    """Keys of ``info`` that hold the parts of a step's reward."""
    success: Success | None = None
    """None where the environment knows no success."""
    random_anchor: Anchor | None = None
    """Uniform random actions."""
    idle_anchor: Anchor | None = None
    """The idle action at every step."""
    reference_anchor: Anchor | None = None
    """The policy that a person wrote (``references/``)."""
    degenerate_policy: str = ""
    """What a policy does that ends episodes early on purpose, in a few words; empty where that gains nothing."""
    degenerate_anchor: Anchor | None = None
    """That policy."""
    packages: tuple[str, ...] = ()
    """Distributions whose versions the numbers depend on, gymnasium and numpy aside."""
    pack: str = ""
    """The pack whose own Python environment plays it; empty where it plays on the Python that we run on."""
    world: World | None = None
    """What makes the task harder than its simulator does; None for the standard world."""

    @property
    def is_known(self) -> bool:
        """Whether more than its name is known; of a run of the paper's release, nothing else is."""
        return bool(self.id)

    @property
    def registered_id(self) -> str:
        """The id that gymnasium registered, without the module that may stand before it (``module:Id``)."""
        return self.id.rpartition(":")[2]

    def in_world(self, world: World) -> "EnvironmentSpec":
        """Return this environment in a world, whose anchors aren't known."""
        return replace(
            self,
            world=world,
            random_anchor=None,
            idle_anchor=None,
            reference_anchor=None,
            degenerate_anchor=None,
            degenerate_policy="",
        )

    @property
    def registering_modules(self) -> tuple[str, ...]:
        """Modules whose import registers the id: ``imports``, and the one that may stand before the id."""
        before = self.id.rpartition(":")[0]
        return (*self.imports, before) if before else self.imports


@dataclass(frozen=True, slots=True)
class TerseTexts:
    """An environment's texts without equations, constants and advice; the fields are those of ``EnvironmentSpec``."""

    objective: str
    reward: str
    termination: str
    observation: tuple[str, ...]
    action: tuple[str, ...]
    success: str = ""
    """What success means; empty where the environment knows no success."""

    def in_place_of(self, spec: EnvironmentSpec) -> EnvironmentSpec:
        """Return an environment with these texts instead of its own."""
        return replace(
            spec,
            objective=self.objective,
            reward=self.reward,
            termination=self.termination,
            observation=self.observation,
            action=self.action,
            success=replace(spec.success, meaning=self.success) if spec.success else None,
        )


@dataclass(frozen=True, slots=True)
class PolicyContext:
    """What ``env_meta`` says. Hidden evaluation repeats the values of the checkpoint's own submission."""

    env: str
    submit_index: int
    n_episodes_this_submit: int
    remaining_budget_after: int
    max_episode_steps: int
    obs_space: Mapping[str, Any]
    action_space: Mapping[str, Any]
    reward_components: tuple[str, ...] = ()

    def env_meta(self) -> dict[str, Any]:
        """Return the plain dict that a policy is given; ``reward_components`` only where some are declared."""
        meta: dict[str, Any] = {
            "env": self.env,
            "submit_index": self.submit_index,
            "n_episodes_this_submit": self.n_episodes_this_submit,
            "remaining_budget_after": self.remaining_budget_after,
            "max_episode_steps": self.max_episode_steps,
            "obs_space": dict(self.obs_space),
            "action_space": dict(self.action_space),
        }
        return meta | ({"reward_components": list(self.reward_components)} if self.reward_components else {})

    def episode_index(self, position: int) -> int:
        """Return what ``reset`` is given for the ``position``-th episode of any rollout of this checkpoint."""
        return position % self.n_episodes_this_submit


class FeedbackProfile(StrEnum):
    """What a submission leaves for the agent to read."""

    FULL = "full"
    """Summary, trajectories, output, errors, and films where asked for."""
    TRACES = "traces"
    """As ``full``, without films."""
    RETURNS = "returns"
    """The summary alone: neither trajectories nor what policies print or raise, which could hold the same."""

    @property
    def shows_episodes(self) -> bool:
        """Whether an agent sees more of an episode than numbers in the summary."""
        return self is not FeedbackProfile.RETURNS


class Memory(StrEnum):
    """What a conversation of an agent has of those before it."""

    FULL = "full"
    """Its workspace with all feedback and, where the agent can continue it, the conversation itself."""
    NONE = "none"
    """Nothing: each conversation starts from the task and the starter policy, and makes one submission."""


TRAIN_CASES, VALIDATION_CASES, HELD_OUT_CASES = 1024, 64, 256
"""How many cases each split holds; a run uses the first so many of the hidden ones."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a policy may use. Reaching one is a policy failure of that episode."""

    load_s: float = 30.0
    """Seconds of processor time, all threads together, for import plus construction. Of this limit and the next three,
    three times as many seconds may pass, without those in which the policy waits for a processor."""
    reset_s: float = 10.0
    """Seconds of processor time for ``reset``."""
    act_s: float = 5.0
    """Seconds of processor time for one ``act``."""
    episode_s: float = 600.0
    """Seconds of processor time for a whole episode, loading included; the environment's time doesn't count."""
    memory_mb: int = 2048
    """Address space of the policy's process, in MiB, the interpreter and its libraries included."""
    output_kb: int = 64
    """KiB kept of stdout, and as many of stderr, for each episode."""
    checkpoint_mb: int = 64
    """Total size of ``system/``, in MiB."""
    checkpoint_files: int = 2000
    """Files in ``system/``."""

    def __post_init__(self) -> None:
        """Refuse limits that nothing could keep to."""
        for name, value in self._values.items():
            if not 0 < value < math.inf:
                raise UsageError(f"Invalid policy limit {name}: expected a finite number above 0, got {value}.")

    @property
    def changed(self) -> dict[str, float]:
        """The limits that aren't at their default, by name."""
        return {item.name: self._values[item.name] for item in fields(self) if self._values[item.name] != item.default}

    @property
    def _values(self) -> dict[str, float]:
        return {item.name: getattr(self, item.name) for item in fields(self)}


@dataclass(frozen=True, slots=True)
class BudgetRule:
    """How many train episodes a run may spend, and in what portions."""

    episodes: int = 128
    min_per_submission: int = 1
    max_per_submission: int | None = None
    """None: no more than what is left."""
    max_submissions: int | None = None
    """The run closes when so many are played; None: as many as the episodes are enough for."""

    def __post_init__(self) -> None:
        """Refuse a budget that nothing could be submitted under."""
        if self.episodes < 1:
            raise UsageError(f"Invalid budget: expected at least 1 episode, got {self.episodes}.")
        if not 1 <= self.min_per_submission <= self.most:
            raise UsageError(
                f"Invalid episodes per submission: expected 1 <= min_episodes <= max_episodes <= budget, got "
                f"{self.min_per_submission}, {self.most} and {self.episodes}."
            )
        if self.max_submissions is not None and self.max_submissions < 1:
            raise UsageError(f"Invalid max_submissions: expected at least 1, got {self.max_submissions}.")

    @property
    def most(self) -> int:
        """The most episodes that one submission may ask for while nothing is spent."""
        return self.episodes if self.max_per_submission is None else min(self.max_per_submission, self.episodes)

    def submissions_left(self, made: int) -> int | None:
        """Return how many submissions may follow so many; None where only the episodes limit them."""
        return None if self.max_submissions is None else self.max_submissions - made

    def check(self, asked: int, remaining: int) -> None:
        """Raise ``RequestRefused`` where ``asked`` episodes can't be charged with ``remaining`` left.

        What is left below the minimum may still be spent whole: no rule makes a run impossible to end.
        """
        least = min(self.min_per_submission, remaining)
        if asked > remaining:
            raise RequestRefused(
                RefusalStatus.BUDGET_INVALID, f"{asked} episodes requested; only {remaining} are left."
            )
        if asked > self.most:
            raise RequestRefused(
                RefusalStatus.BUDGET_INVALID,
                f"{asked} episodes requested; one submission may play at most {self.most}.",
            )
        if asked < least:
            raise RequestRefused(
                RefusalStatus.BUDGET_INVALID,
                f"{asked} episodes requested; one submission must play at least {least}.",
            )


@dataclass(frozen=True, slots=True)
class Task:
    """An environment plus budget and limits."""

    environment: EnvironmentSpec
    budget: BudgetRule = field(default_factory=BudgetRule)
    validation_cases: int = 16
    held_out_cases: int = 32
    train_cases: int = TRAIN_CASES
    """How many train cases an agent may name. Numbers of cases are 0 if they and the environment are unknown."""
    limits: Limits = field(default_factory=Limits)
    feedback: FeedbackProfile = FeedbackProfile.FULL
    finish_allowed: bool = False
    """Whether an agent may leave budget unspent by asking to finish."""
    films: int = 0
    """How many films of its train episodes an agent may ask for."""
    policy_packages: tuple[str, ...] = ()
    """Distributions that policies may import besides those that all may, by normalised names, sorted."""
    choices: Mapping[str, Any] = field(default_factory=dict)
    """Options that runs must agree in and that are no field of their own, by name; none that is at its default."""

    @property
    def text(self) -> TaskText:
        """How much the environment's texts say; the environment holds those that are shown."""
        return TaskText.TERSE if self.choices.get("text") == TaskText.TERSE else TaskText.FULL

    @property
    def interface(self) -> TaskInterface:
        """How the environment's spaces are shown."""
        return TaskInterface(self.choices.get("interface", TaskInterface.STANDARD))

    @property
    def memory(self) -> Memory:
        """What a conversation of the agent has of those before it."""
        return Memory(self.choices.get("memory", Memory.FULL))

    @property
    def skill(self) -> str:
        """The name of the skill that the agent was handed, and the start of its digest; empty without one."""
        return str(self.choices.get("skill", ""))

    @property
    def least_left(self) -> int:
        """The fewest episodes that must be left for a submission: of independent samples, those of a whole one."""
        return self.budget.most if self.memory is Memory.NONE else 1

    def __post_init__(self) -> None:
        """Refuse a profile that no split can serve, and films of what nobody may see."""
        for what, asked, most in (
            ("validation cases", self.validation_cases, VALIDATION_CASES),
            ("held-out cases", self.held_out_cases, HELD_OUT_CASES),
            ("train cases", self.train_cases, TRAIN_CASES),
        ):
            if self.environment.is_known and not 1 <= asked <= most:
                raise UsageError(f"Invalid number of {what}: expected 1 to {most}, got {asked}.")
        if self.films < 0:
            raise UsageError(f"Invalid films: expected an integer from 0, got {self.films}.")
        if self.films and self.interface is TaskInterface.ANONYMOUS:
            raise UsageError(
                f"Invalid films: expected 0 with the interface {self.interface}, as films show the simulator, got "
                f"{self.films}."
            )
        if self.films and self.feedback is not FeedbackProfile.FULL:
            raise UsageError(
                f"Films need the feedback profile {FeedbackProfile.FULL}, got {self.films} films with {self.feedback}."
            )
