"""Algorithms, their hyperparameters for each environment, and the budget of a training."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any

from evopolicygym.core.errors import UsageError


class Algorithm(StrEnum):
    """A learning algorithm."""

    PPO = "ppo"
    """Proximal policy optimisation (Schulman et al. 2017)."""
    SAC = "sac"
    """Soft actor-critic (Haarnoja et al. 2018), for continuous actions."""


OURS = frozenset(
    {
        "policy_layers",
        "value_layers",
        "activation",
        "filters",
        "normalise_observations",
        "normalise_rewards",
        "parallel",
    }
)
"""Settings that are not arguments of Stable-Baselines3."""


def fitting(environment: str) -> Algorithm:
    """Return the default algorithm of an environment: that of the settings file, or PPO."""
    return Algorithm(_of(environment).get("algorithm", Algorithm.PPO))


def settings_of(environment: str, algorithm: Algorithm) -> dict[str, Any]:
    """Return the settings of an algorithm, with those of the environment over its defaults."""
    return {**_document()[algorithm], **_of(environment).get(algorithm, {})}


def algorithm_named(name: str) -> Algorithm:
    """Return the algorithm with a name; raise ``UsageError`` if there is none."""
    try:
        return Algorithm(name.lower())
    except ValueError:
        known = ", ".join(Algorithm)
        raise UsageError(f"There is no training algorithm named {name!r}. Known: {known}.") from None


def _of(environment: str) -> Mapping[str, Any]:
    table: Mapping[str, Any] = _document()["environments"].get(environment, {})
    return table


@cache
def _document() -> dict[str, Any]:
    return tomllib.loads(files("evopolicygym.baselines").joinpath("settings.toml").read_text(encoding="utf-8"))


class Unit(StrEnum):
    """The unit of a budget."""

    EPISODES = "episodes"
    """Whole episodes, exactly."""
    STEPS = "steps"
    """Steps of all environments together."""
    MINUTES = "minutes"
    """Minutes of processor time on one core. The number of steps depends on the processor, and is reported."""


@dataclass(frozen=True, slots=True)
class TrainingBudget:
    """The budget of a training."""

    amount: float
    unit: Unit

    def __str__(self) -> str:
        """Return the budget as in an entry's name."""
        return f"{self.amount:g} {self.unit}" if self.amount != 1 else f"1 {self.unit.removesuffix('s')}"

    @property
    def episodes(self) -> int | None:
        """Most episodes that may be started; None for another unit."""
        return int(self.amount) if self.unit is Unit.EPISODES else None


def budget_of(episodes: int | None, steps: int | None, minutes: float | None) -> TrainingBudget:
    """Return the only budget that is given; raise ``UsageError`` for none, several, or an invalid one."""
    amounts = {Unit.EPISODES: episodes, Unit.STEPS: steps, Unit.MINUTES: minutes}
    budgets = [TrainingBudget(amount, unit) for unit, amount in amounts.items() if amount is not None]
    if len(budgets) != 1:
        names = " and ".join(map(str, budgets)) or "none"
        raise UsageError(f"Training expects one budget, --episodes, --steps or --minutes; got {names}.")
    if budgets[0].amount <= 0:
        raise UsageError(f"--{budgets[0].unit} expects a number above 0, got {budgets[0].amount:g}.")
    return budgets[0]
