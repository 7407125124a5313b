"""Rewards of a training session, all on the task's known scale: 0 is the better of random and idle play, 1 the best.

``n(x)`` is ``(x - low) / (best - low)``, clipped to [0, 1]. A session's worth at any time is

- ``train``: n of the best mean train return of a submission so far (0 before the first),
- ``validation``: n of the best mean validation return of a submission so far,
- ``held_out``: n of the mean held-out return of the selected checkpoint, which is the score (0 without one),
- ``cost``: ``price`` x episodes spent / budget.

While a session is open its value is the worth that ``shaping`` names (``none``: 0), at its end ``held_out``; either is
less ``cost``. The reward of a step is how much the value changed in it, so that the rewards of any sequence of steps
add up to the final score less the cost.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import isnan

from evopolicygym.analysis.ranking.known_scale import KnownScale, KnownScores, known_scale
from evopolicygym.core.errors import UsageError
from evopolicygym.core.run import RunState, Stage
from evopolicygym.core.score import normalised
from evopolicygym.core.task import EnvironmentSpec
from evopolicygym.specs.identity import environment_identity

BEST: Mapping[str, tuple[float, str]] = {
    "cartpole": (500.0, "the reward of every step of an episode"),
    "pendulum": (-154.813, "a swing up by energy with linear feedback near the top, mean of 256 held-out cases"),
}
"""Best scores of tasks that have no reference policy, with their source."""


class Shaping(StrEnum):
    """What a submission is worth before the end."""

    NONE = "none"
    """Nothing: the whole reward comes at the end."""
    TRAIN = "train"
    VALIDATION = "validation"
    """Every submission plays hidden validation at once, not only at the end."""


def scale_of(spec: EnvironmentSpec) -> KnownScale:
    """Return the scale of a task, the one of ``leaderboard --norm known``; raise ``UsageError`` if it has none."""
    scale = known_scale(spec.name, environment_identity(spec), KnownScores.of(spec))
    if scale is None and spec.name in BEST:
        low = max((anchor.mean for anchor in (spec.random_anchor, spec.idle_anchor) if anchor), default=None)
        best, source = BEST[spec.name]
        scale = None if low is None else KnownScale(low, best, source)
    if scale is None:
        raise UsageError(
            f"The task {spec.name!r} has no scale for rewards: no policy in it is known to beat random play."
        )
    return scale


@dataclass(frozen=True, slots=True)
class Worth:
    """What a session is worth at a time."""

    train: float = 0.0
    validation: float = 0.0
    held_out: float = 0.0
    cost: float = 0.0
    value: float = 0.0
    """What rewards are differences of."""

    def gain_over(self, before: "Worth") -> dict[str, float]:
        """Return the rewards of a step by name; ``reward`` is the one that adds up to the final score."""
        return {
            "reward": self.value - before.value,
            "train_gain": self.train - before.train,
            "validation_gain": self.validation - before.validation,
            "held_out": self.held_out - before.held_out,
            "cost": self.cost - before.cost,
        }


@dataclass(frozen=True, slots=True)
class RewardRule:
    """How a session's worth is computed from its state."""

    shaping: Shaping = Shaping.TRAIN
    price: float = 0.0
    """What the whole budget costs."""

    def __post_init__(self) -> None:
        """Raise ``UsageError`` for an invalid price."""
        if not 0 <= self.price <= 1:
            raise UsageError(f"Invalid price: expected a number from 0 to 1, got {self.price}.")

    @property
    def needs_validation(self) -> bool:
        """Whether hidden validation follows each submission."""
        return self.shaping is Shaping.VALIDATION

    def worth(self, state: RunState, scale: KnownScale, validation: Mapping[str, float]) -> Worth:
        """Return what a session is worth; ``validation`` are means by checkpoint, where all cases were played."""
        train = max((_on(scale, each.train_mean) for each in state.candidates), default=0.0)
        validated = max((_on(scale, validation.get(name)) for name in state.checkpoints), default=0.0)
        held_out = _on(scale, state.finished.score) if state.finished else 0.0
        cost = self.price * state.spent / state.budget
        by_shaping = {Shaping.NONE: 0.0, Shaping.TRAIN: train, Shaping.VALIDATION: validated}
        value = (held_out if state.stage is Stage.FINISHED else by_shaping[self.shaping]) - cost
        return Worth(train, validated, held_out, cost, value)


def _on(scale: KnownScale, mean: float | None) -> float:
    return 0.0 if mean is None or isnan(mean) else normalised(mean, scale.low, scale.best)
