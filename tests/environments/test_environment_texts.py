"""What a spec says of rewards and observations is what its simulator does."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from evopolicygym.environments.environment import Environment
from evopolicygym.specs import catalog
from specs import MINIGRID, random_steps


def reacher(_: Any, action: Any, after: Any) -> float:
    return -math.hypot(*after[8:10]) - float((action**2).sum())


def pusher(_: Any, action: Any, after: Any) -> float:
    tip, cylinder, goal = after[14:17], after[17:20], after[20:23]
    near = 0.5 * float(np.linalg.norm(tip - cylinder))
    return -float(np.linalg.norm(cylinder - goal)) - near - 0.1 * float((action**2).sum())


def parking(_: Any, __: Any, after: Any) -> float:
    apart = np.abs(after["achieved_goal"] - after["desired_goal"])
    return -math.sqrt(apart[0] + 0.3 * apart[1] + 0.02 * apart[4] + 0.02 * apart[5])


def fetch(_: Any, __: Any, after: Any) -> float:
    return -float(np.linalg.norm(after["achieved_goal"] - after["desired_goal"]) > 0.05)


def pendulum(before: Any, action: Any, _: Any) -> float:
    angle = math.atan2(before[1], before[0])
    return -(angle**2 + 0.1 * float(before[2]) ** 2 + 0.001 * float(action[0]) ** 2)


def bipedal_walker(before: Any, action: Any, after: Any) -> float:
    effort = 0.028 * float(np.abs(action).sum())
    return 130 / 30 * float(after[2]) / 0.12 / 50 - 5 * float(abs(after[0]) - abs(before[0])) - effort


@pytest.mark.parametrize(
    ("name", "formula", "tolerance"),
    [
        ("reacher", reacher, 1e-6),
        ("pusher", pusher, 1e-6),
        ("parking", parking, 1e-9),
        ("fetch_push", fetch, 0.0),
        ("pendulum", pendulum, 1e-5),
        ("bipedal_walker", bipedal_walker, 0.02),
        ("continuous_car", lambda _, action, __: -0.1 * float(action[0]) ** 2, 1e-9),
        ("acrobot", lambda *_: -1.0, 0.0),
        ("cartpole", lambda *_: 1.0, 0.0),
    ],
)
def test_the_reward_is_what_its_text_says(name: str, formula: Callable[..., float], tolerance: float) -> None:
    """The formula told to an agent gives the reward, from what the agent itself sees."""
    steps = random_steps(catalog.load(name), 8)

    assert [reward for *_, reward, _ in steps] == pytest.approx([formula(*step[:3]) for step in steps], abs=tolerance)


@pytest.mark.parametrize("name", ["reacher", "half_cheetah", "ant", "pusher"])
def test_reward_components_add_up(name: str) -> None:
    """The parts of the reward that a spec declares are all of it."""
    spec = catalog.load(name)

    for *_, reward, info in random_steps(spec, 40):
        assert reward == pytest.approx(sum(float(info[key]) for key in spec.reward_components), abs=1e-6)


def test_the_cost_of_contact_is_in_what_the_ant_sees() -> None:
    """The ant's contact cost is 0.0005 times the sum of the squares of elements 27 to 104."""
    environment = Environment(catalog.load("ant"))
    environment.reset(0)
    steps = [environment.step(environment.idle_action) for _ in range(60)]
    told = [-0.0005 * float((observation[27:] ** 2).sum()) for observation, *_ in steps]

    assert told == pytest.approx([float(info["reward_contact"]) for *_, info in steps])
    assert min(told) < 0


def test_roundabouts_reward_is_what_its_text_says() -> None:
    """Full target speed gives 1, and a lane change costs 0.05/1.2 of it."""
    environment = Environment(catalog.load("roundabout"))
    environment.reset(3)
    faster, left = environment.step(3), environment.step(0)

    assert faster[1] == pytest.approx(1.0)
    assert left[1] == pytest.approx((1.2 - 0.05 - left[4]["crashed"]) / 1.2)


@pytest.mark.parametrize("name", MINIGRID)
def test_the_codes_of_minigrids_image_are_the_simulators(name: str) -> None:
    """The objects, colours and states told to an agent are those of the installed MiniGrid."""
    from minigrid.core import constants

    _, _, objects, colours, states, *_ = catalog.load(name).observation

    assert all(f"{code} {word}" in objects for word, code in constants.OBJECT_TO_IDX.items())
    assert all(f"{code} {word}" in colours for word, code in constants.COLOR_TO_IDX.items())
    assert all(f"{code} {word}" in states for word, code in constants.STATE_TO_IDX.items())


def test_the_places_in_minigrids_image_are_as_told() -> None:
    """The cell ahead is ``image[3, 5]``, the one to the left ``image[2, 6]``, the one to the right ``image[4, 6]``."""
    environment = Environment(catalog.load("four_rooms"))
    for seed in range(20):
        image = environment.reset(seed)["image"]
        world: Any = environment._simulator.unwrapped
        around = ((3, 5, world.dir_vec), (4, 6, world.right_vec), (2, 6, -world.right_vec))
        for i, j, offset in around:
            thing = world.grid.get(*(np.asarray(world.agent_pos) + offset))
            assert tuple(image[i, j]) == (thing.encode() if thing else (1, 0, 0))
