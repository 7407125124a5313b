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
"""Settings that are no arguments of Stable-Baselines3."""


def fitting(environment: str) -> Algorithm:
    """Return the algorithm that fits an environment: as the file has it, else PPO, which plays everything."""
    return Algorithm(_of(environment).get("algorithm", Algorithm.PPO))


def settings_of(environment: str, algorithm: Algorithm) -> dict[str, Any]:
    """Return the settings of an algorithm in an environment, those of the environment over those of the algorithm."""
    return {**_document()[algorithm], **_of(environment).get(algorithm, {})}


def algorithm_named(name: str) -> Algorithm:
    """Return the algorithm of a name; raise ``UsageError`` where there is none."""
    try:
        return Algorithm(name.lower())
    except ValueError:
        known = ", ".join(Algorithm)
        raise UsageError(f"There is no algorithm {name!r} to train with. Known: {known}.") from None


def _of(environment: str) -> Mapping[str, Any]:
    table: Mapping[str, Any] = _document()["environments"].get(environment, {})
    return table


@cache
def _document() -> dict[str, Any]:
    return tomllib.loads(files("evopolicygym.baselines").joinpath("settings.toml").read_text(encoding="utf-8"))


class Unit(StrEnum):
    """The unit of a budget."""

    EPISODES = "episodes"
    """From reset to end, exactly: no case more is dealt."""
    STEPS = "steps"
    """Actions played in all environments together."""
    MINUTES = "minutes"
    """Minutes of processor time on one core, whatever the machine's load. How far they get depends on
    the processor; the steps that it was are reported afterwards."""


@dataclass(frozen=True, slots=True)
class TrainingBudget:
    """When training ends."""

    amount: float
    unit: Unit

    def __str__(self) -> str:
        """Return it in words, as it stands in an entry's name."""
        return f"{self.amount:g} {self.unit}" if self.amount != 1 else f"1 {self.unit.removesuffix('s')}"

    @property
    def episodes(self) -> int | None:
        """The most episodes that may be begun; None where they are not counted."""
        return int(self.amount) if self.unit is Unit.EPISODES else None


def budget_of(episodes: int | None, steps: int | None, minutes: float | None) -> TrainingBudget:
    """Return the one budget that was given; raise ``UsageError`` where there is none, or more than one, or nothing."""
    given = {Unit.EPISODES: episodes, Unit.STEPS: steps, Unit.MINUTES: minutes}
    found = [TrainingBudget(amount, unit) for unit, amount in given.items() if amount is not None]
    if len(found) != 1:
        named = " and ".join(map(str, found)) or "none"
        raise UsageError(f"Training expects one budget, --episodes, --steps or --minutes; got {named}.")
    if found[0].amount <= 0:
        raise UsageError(f"--{found[0].unit} expects a number above 0, got {found[0].amount:g}.")
    return found[0]
