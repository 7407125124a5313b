"""The policy that every agent starts from: it plays uniformly at random."""

import random
from typing import Any

import numpy as np


class Policy:
    """Draws each action from the action space."""

    def __init__(self, obs_space: dict[str, Any], action_space: dict[str, Any], env_meta: dict[str, Any]) -> None:
        """Keep what is known of the environment: plain dicts."""
        self.obs_space, self.action_space, self.env_meta = obs_space, action_space, env_meta

    def reset(self, episode_index: int) -> None:
        """Begin an episode, the only one of this process."""
        self.episode_index = episode_index
        # `random` has just been seeded for this episode, so the same case is played the same way again.
        self.generator = np.random.default_rng(random.getrandbits(64))

    def act(self, obs: object) -> object:  # noqa: ARG002 - it plays blindly
        """Return the action for an observation."""
        return draw(self.action_space, self.generator)


def draw(space: dict[str, Any], generator: np.random.Generator) -> object:
    """Return a value of a space, uniformly at random."""
    match space["type"]:
        case "Discrete":
            return int(generator.integers(space["start"], space["start"] + space["n"]))
        case "Box":
            return draw_box(space, generator)
        case "MultiDiscrete":
            start = np.array(space["start"])
            return generator.integers(start, start + space["nvec"])
        case "MultiBinary":
            return generator.integers(0, 2, space["shape"])
        case "Tuple":
            return tuple(draw(part, generator) for part in space["spaces"])
        case "Dict":
            return {name: draw(part, generator) for name, part in space["spaces"].items()}
        case _:
            return ""


def draw_box(space: dict[str, Any], generator: np.random.Generator) -> np.ndarray:
    """Return an array within bounds; an element that lacks a bound is drawn from a normal distribution."""
    low = np.broadcast_to(np.array(space["low"], dtype=float), space["shape"])
    high = np.broadcast_to(np.array(space["high"], dtype=float), space["shape"])
    if space["dtype"].startswith(("int", "uint")):
        return generator.integers(low.astype(int), high.astype(int), endpoint=True)
    bounded = np.isfinite(low) & np.isfinite(high)
    uniform = generator.uniform(np.where(bounded, low, 0.0), np.where(bounded, high, 1.0))
    return np.where(bounded, uniform, np.clip(generator.standard_normal(space["shape"]), low, high))
