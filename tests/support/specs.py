"""The specs that ship, as tests of environments ask for them."""

from typing import Any

import numpy as np
import pytest

from evopolicygym.core import spaces as ours
from evopolicygym.core.task import EnvironmentSpec
from evopolicygym.environments.environment import Environment
from evopolicygym.specs import catalog

CORE16 = {
    *("acrobot", "continuous_car", "bipedal_walker", "car_racing", "reacher", "half_cheetah", "ant", "pusher"),
    *("door_key", "key_corridor", "four_rooms", "obstructed_maze", "parking", "roundabout"),
    *("fetch_push", "fetch_pick_and_place"),
}
MINIGRID = ["door_key", "key_corridor", "four_rooms", "obstructed_maze"]
FAMILIES = ("acrobot", "bipedal_walker", "half_cheetah", "door_key", "parking", "fetch_push")
"""One environment for each family of simulators: what the gate plays."""
every = pytest.mark.parametrize("name", catalog.names())
each_family = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.nightly] * (name not in FAMILIES)) for name in catalog.names()]
)
"""In the gate one environment of each family, nightly all."""
CARTPOLE = catalog.load("cartpole")


def random_steps(spec: EnvironmentSpec, steps: int, seed: int = 5) -> list[tuple[Any, Any, Any, float, dict[str, Any]]]:
    """Return ``(before, action, after, reward, info)`` of some random steps."""
    environment, random = Environment(spec), np.random.default_rng(seed)
    before, seen = environment.reset(seed), []
    for _ in range(steps):
        action = ours.sample(environment.action_space, random)
        after, reward, terminated, truncated, info = environment.step(action)
        seen.append((before, action, after, reward, info))
        before = after
        if terminated or truncated:
            break
    environment.close()
    return seen
