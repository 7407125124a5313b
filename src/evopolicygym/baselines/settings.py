"""Settings: how a baseline is trained in an environment, read from ``settings.toml``, where every name is explained."""

import tomllib
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any

from evopolicygym.core.errors import UsageError


class Algorithm(StrEnum):
    """What learns."""

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
