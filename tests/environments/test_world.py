"""Worlds: what they do to observations, actions, starts and parameters, and that nothing else moves."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from evopolicygym.core.errors import UsageError
from evopolicygym.core.spaces import Box, Dict, sample
from evopolicygym.core.task import EnvironmentSpec, TaskText
from evopolicygym.core.world import decode_world
from evopolicygym.environments.environment import Environment
from evopolicygym.runs.environment import resolve_environment, resolve_world
from evopolicygym.specs import catalog, pack_catalog
from simulators import spec

PLAIN = spec("Plain", 12)
SEED, WORLD_SEED = 5, 11


def in_world(environment: EnvironmentSpec, **document: Any) -> EnvironmentSpec:
    """Return an environment in the world of a document."""
    return environment.in_world(decode_world(document, "test", "the test"))


def played(environment: EnvironmentSpec, steps: int = 6, world_seed: int = WORLD_SEED) -> tuple[list[Any], list[float]]:
    """Return the observations and rewards of a few random actions."""
    simulator, random = Environment(environment, world_seed), np.random.default_rng(1)
    observations, rewards = [simulator.reset(SEED)], []
    for _ in range(steps):
        observation, reward, *_ = simulator.step(sample(simulator.action_space, random))
        observations.append(observation)
        rewards.append(reward)
    simulator.close()
    return observations, rewards


def flat(observation: Any) -> Any:
    """Return all numbers of an observation."""
    parts = observation.values() if isinstance(observation, Mapping) else [observation]
    return np.concatenate([np.ravel(part) for part in parts])


def test_what_is_dropped_is_gone() -> None:
    """Entries are left out of a vector and of its space with their meanings, and keys of a dict; the rest stays."""
    reacher, parking = catalog.load("reacher"), catalog.load("parking")
    whole, _ = played(reacher)
    left, _ = played(in_world(reacher, drop=["0", "6-7"]))
    simulator = Environment(in_world(reacher, drop=["0", "6-7"]))
    space = simulator.observation_space
    kept = [1, 2, 3, 4, 5, 8, 9]
    goals = played(in_world(parking, drop=["achieved_goal", "observation:4-5"]))[0][-1]

    assert np.array_equal(np.array(left), np.array(whole)[:, kept])
    assert isinstance(space, Box)
    assert (space.shape, space.fields) == ((7,), tuple(reacher.observation[place] for place in kept))
    assert {name: part.shape for name, part in goals.items()} == {"observation": (4,), "desired_goal": (6,)}


def test_noise_moves_observations_and_leaves_the_simulator_alone() -> None:
    """Noise of observations has the size that is declared, a stream of its own, and changes no reward."""
    plain, rewards = played(PLAIN, 11)
    share, after_share = played(in_world(PLAIN, noise={"observation": {"share": 0.01}}), 11)
    absolute, after_absolute = played(in_world(PLAIN, noise={"observation": {"absolute": [0.2, 0.0]}}), 11)
    moved = np.array(share, np.float64) - np.array(plain, np.float64)

    assert rewards == after_share == after_absolute
    assert share[0].dtype == plain[0].dtype
    assert 0.1 < moved.std() < 0.3
    assert np.array_equal(np.array(absolute)[:, 1], np.array(plain)[:, 1])
    assert (np.array(absolute)[:, 0] != np.array(plain)[:, 0]).all()


def test_noise_stays_within_bounds() -> None:
    """Observations and actions with noise stay in their spaces."""
    observations, rewards = played(in_world(PLAIN, noise={"observation": {"share": 1}, "action": {"share": 1}}))

    assert np.abs(observations).max() == 10
    assert min(rewards) >= -3


def test_noise_of_actions() -> None:
    """What is executed differs from what was played; a choice is sometimes another one."""
    observations, rewards = played(PLAIN)
    same, other = played(in_world(PLAIN, noise={"action": {"absolute": 0.1}}))
    cartpole = catalog.load("cartpole")

    assert np.array_equal(observations, same)
    assert rewards != other
    assert not np.array_equal(played(cartpole)[0], played(in_world(cartpole, noise={"action": {"share": 0.5}}))[0])


def test_delays() -> None:
    """Observations come, and actions are executed, so many steps late; before, the first one and the idle action."""
    plain = replace(PLAIN, idle_action=[0.0, 0.0])
    observations, rewards = played(plain)
    late, same = played(in_world(plain, delay={"observation": 2}))
    unmoved, costs = played(in_world(plain, delay={"action": 2}))

    assert same == rewards
    assert np.array_equal(late, [observations[0]] * 2 + observations[:-2])
    assert np.array_equal(unmoved, observations)
    assert costs == [-1.0, -1.0, *rewards[:-2]]


@pytest.mark.parametrize("name", ["reacher", "ant"])
def test_the_start_of_mujoco_is_disturbed(name: str) -> None:
    """Positions and velocities move by the case, within what is declared, and the same each time."""
    environment = catalog.load(name)
    jittered = in_world(environment, jitter={"position": 0.05, "velocity": 0.1})
    starts = [Environment(jittered, WORLD_SEED) for _ in range(3)]
    before = Environment(environment)
    before.reset(SEED)
    for simulator in starts:
        simulator.reset(SEED)
    moved = starts[0].simulator.unwrapped.data.qpos - before.simulator.unwrapped.data.qpos  # type: ignore[attr-defined]
    first, second = (simulator.simulator.unwrapped.data.qpos for simulator in starts[:2])  # type: ignore[attr-defined]
    other = starts[2].reset(SEED + 1)

    assert 0 < np.abs(moved).max() < 0.11
    assert np.array_equal(first, second)
    assert not np.array_equal(other, starts[0].reset(SEED))


def test_the_start_by_random_actions() -> None:
    """Up to so many random actions come first, unrewarded; the episode has its whole length all the same."""
    jittered = in_world(PLAIN, jitter={"actions": 9})
    starts = {Environment(jittered, seed).reset(SEED).tobytes() for seed in range(8)}
    simulator, random = Environment(jittered, 0), np.random.default_rng(1)
    simulator.reset(SEED)
    ends = [simulator.step(sample(simulator.action_space, random))[3] for _ in range(PLAIN.max_steps)]

    assert 1 < len(starts) <= 8
    assert ends == [False] * (PLAIN.max_steps - 1) + [True]


DRAWN = {
    "reacher": ("body_mass", "geom_friction", "dof_damping", "actuator_gear", "gravity"),
    "bipedal_walker": ("gravity", "motor_strength"),
    "parking": ("acceleration", "steering"),
    "roundabout": ("driver_acceleration", "time_wanted", "distance_wanted"),
}
UNSEEN = {"geom_friction", *DRAWN["roundabout"]} | {("reacher", "gravity")}
"""Parameters that a few random actions don't show."""


@pytest.mark.parametrize(
    ("name", "parameter"),
    [(name, parameter) for name, parameters in DRAWN.items() for parameter in parameters],
)
def test_parameters_are_drawn(name: str, parameter: str) -> None:
    """A draw changes what happens, another one changes it otherwise, and the same one is the same, bit for bit."""
    environment = catalog.load(name)
    drawn = in_world(environment, drawn={parameter: [0.3, 3]})
    paths = [
        np.array([flat(one) for one in played(which, 30 if name == "bipedal_walker" else 2, seed)[0]])
        for which, seed in ((environment, 1), (drawn, 1), (drawn, 1), (drawn, 2))
    ]

    assert np.array_equal(paths[1], paths[2])
    assert np.array_equal(paths[0][0].shape, paths[1][0].shape)
    if UNSEEN.isdisjoint({parameter, (name, parameter)}):
        assert not np.array_equal(paths[0], paths[1])
        assert not np.array_equal(paths[1], paths[3])


def test_a_range_of_one_is_the_simulator_s_own() -> None:
    """Where every factor is 1, the same is played as in the standard world, by the simulator itself too."""
    for name, parameters in DRAWN.items():
        environment = catalog.load(name)
        own = in_world(environment, drawn={key: [1, 1] for key in parameters})
        first, second = played(environment), played(own)

        assert [flat(one).tobytes() for one in first[0]] == [flat(one).tobytes() for one in second[0]], name
        assert first[1] == second[1]


def test_a_draw_of_one_parameter_moves_no_other() -> None:
    """Each parameter has a stream of its own, and the constants of a simulator's module stay as they are."""
    walker = catalog.load("bipedal_walker")
    one, two = ({"gravity": [0.5, 2]}, {"gravity": [0.5, 2], "motor_strength": [0.5, 2]})
    before = played(walker)[1]
    worlds = [Environment(in_world(walker, drawn=drawn), WORLD_SEED) for drawn in (one, two)]
    for simulator in worlds:
        simulator.reset(SEED)
    gravities = [simulator.simulator.unwrapped.world.gravity for simulator in worlds]  # type: ignore[attr-defined]

    assert tuple(gravities[0]) == tuple(gravities[1]) != (0, -10)
    assert before == played(walker)[1]


def test_shortcuts_play_the_same_in_a_world_that_leaves_the_simulator_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """With noise and delay a shortcut plays the same episode as the plain simulator, bit for bit."""
    noisy = in_world(catalog.load("parking"), noise={"action": {"share": 0.1}}, delay={"action": 1})
    quick = played(noisy)
    monkeypatch.setattr("evopolicygym.environments.fast.entry_point", lambda registered: registered)

    assert [flat(one).tobytes() for one in quick[0]] == [flat(one).tobytes() for one in played(noisy)[0]]
    assert "fast" not in type(Environment(noisy).simulator.unwrapped).__module__


def test_info_tells_nothing_more() -> None:
    """A step's info holds the parts of the reward alone, as agents read it."""
    simulator = Environment(in_world(PLAIN, delay={"observation": 1}))
    simulator.reset(SEED)

    assert simulator.step(np.zeros(2, np.float32))[4].keys() == {"effort"}


@pytest.mark.parametrize(
    ("name", "document", "named"),
    [
        ("reacher", {"drop": ["10"]}, "0 to 9"),
        ("reacher", {"drop": ["0-9"]}, "nothing"),
        ("reacher", {"drop": ["position"]}, "no keys"),
        ("parking", {"drop": ["goal"]}, "desired_goal"),
        ("reacher", {"noise": {"observation": {"share": 0.1}}}, "absolute"),
        ("reacher", {"noise": {"observation": {"absolute": [1, 2]}}}, "2"),
        ("cartpole", {"noise": {"action": {"absolute": 1}}}, "share"),
        ("cartpole", {"jitter": {"position": 1}}, "actions"),
        ("cartpole", {"drawn": {"body_mass": [1, 2]}}, "body_mass"),
        ("reacher", {"drawn": {"wind": [1, 2]}}, "wind"),
        ("door_key", {"noise": {"observation": {"absolute": 1}}, "drop": ["image"]}, "noise"),
    ],
)
def test_what_a_simulator_has_not(name: str, document: dict[str, Any], named: str) -> None:
    """A world that doesn't fit a simulator is refused with what would fit."""
    with pytest.raises(UsageError, match=named):
        Environment(in_world(catalog.load(name), **document)).reset(SEED)


def test_spaces_after_a_drop_are_a_dict_s() -> None:
    """What is left of a Dict has its space."""
    space = Environment(in_world(catalog.load("parking"), drop=["desired_goal"])).observation_space

    assert isinstance(space, Dict)
    assert [name for name, _ in space.spaces] == ["achieved_goal", "observation"]


def test_other_drivers_are_drawn() -> None:
    """What other drivers keep is set after each reset, for all of them alike."""
    drawn = in_world(catalog.load("roundabout"), drawn={"time_wanted": [2, 2], "distance_wanted": [3, 3]})
    simulator = Environment(drawn)
    simulator.reset(SEED)
    simulator.reset(SEED + 1)
    others = simulator.simulator.unwrapped.road.vehicles[1:]  # type: ignore[attr-defined]

    assert {(each.TIME_WANTED, each.DISTANCE_WANTED) for each in others} == {
        (2 * type(others[0]).TIME_WANTED, 3 * type(others[0]).DISTANCE_WANTED)
    }


SHIPPED = [(name, world) for name in catalog.names() for world in catalog.worlds_of(name)]
SHIPPED_BY_PACKS = [
    (task.name, world) for pack in pack_catalog.readable() for task in pack.tasks for world in task.worlds
]


@pytest.mark.parametrize(
    ("name", "world"),
    [*SHIPPED, *(pytest.param(*shipped, marks=pytest.mark.nightly) for shipped in SHIPPED_BY_PACKS)],
)
def test_a_world_that_ships_fits_its_task(name: str, world: str) -> None:
    """What a world changes is there in the simulator of the task that it ships with."""
    environment, _ = resolve_environment(name, TaskText.FULL)
    found = resolve_world(name, world)
    assert found is not None

    assert played(environment)[1] != played(environment.in_world(found))[1] or found.delay.observation
