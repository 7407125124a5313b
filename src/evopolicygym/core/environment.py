"""An environment as its spec declares it: what an agent is shown, what is recorded, what it is measured against."""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any


class TaskKind(StrEnum):
    """What a task asks for (the paper's split)."""

    TUNING = "tuning"
    """Gains and thresholds of a controller of known form."""
    SYNTHESIS = "synthesis"
    """Perception, memory or planning has to be built."""


class TaskText(StrEnum):
    """How much of an environment its texts say."""

    FULL = "full"
    """All that a reader of its source would know, constants and equations too."""
    TERSE = "terse"
    """What is seen, what can be done, what is rewarded and when it ends, in words."""


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

    @property
    def registered_id(self) -> str:
        """The id that gymnasium registered, without the module that may stand before it (``module:Id``)."""
        return self.id.rpartition(":")[2]

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
