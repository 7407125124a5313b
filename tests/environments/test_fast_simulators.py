"""Shortcuts: a simulator that does less work plays the same episodes, bit for bit."""

import importlib
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import gymnasium
import numpy as np
import pytest

from evopolicygym.environments import fast
from evopolicygym.environments.environment import Environment
from evopolicygym.specs import catalog
from plain_gymnasium import assert_plays_as_plain
from specs import MINIGRID

SHORTENED = ("car_racing", "parking", "roundabout", *MINIGRID)
KINEMATICS = {"type": "Kinematics", "features": ["x", "presence", "vy", "cos_h", "long_off"]}
"""Of another choice and order than roundabout's own."""


@pytest.mark.parametrize("name", SHORTENED)
def test_a_shortcut_is_used_with_the_versions_it_was_compared_with(name: str) -> None:
    """What plays is the shortcut's class, which is a kind of the simulator's own."""
    ours, theirs = _classes(name)

    assert ours.__module__.startswith(fast.__name__)
    assert issubclass(ours, theirs)


RESTS_ON = {
    "car_racing": ("gymnasium", "numpy", "box2d", "pygame"),
    **dict.fromkeys(("parking", "roundabout"), ("gymnasium", "numpy", "highway-env", "pandas")),
    **dict.fromkeys(MINIGRID, ("gymnasium", "numpy", "minigrid")),
}
"""What settles the bits of each environment."""


@pytest.mark.parametrize(
    ("name", "other"),
    [
        pytest.param(name, other, marks=[pytest.mark.nightly] * (name not in {"car_racing", "parking", "door_key"}))
        for name in SHORTENED
        for other in RESTS_ON[name]
    ],
)
def test_with_another_version_of_anything_the_simulator_plays_as_it_is(
    name: str, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where any one of the packages that settle the bits is not the one of the comparison, no shortcut is used."""
    monkeypatch.setattr(fast, "version", lambda asked: "99.0" if asked == other else version(asked))
    fast.entry_point.cache_clear()
    try:
        ours, theirs = _classes(name)
    finally:
        fast.entry_point.cache_clear()

    assert ours is theirs


def test_a_package_under_another_is_not_the_one_of_the_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where pygame-ce lies over pygame, whose version is still the right one, no shortcut draws by it."""
    monkeypatch.setattr(fast, "provider", lambda asked: "pygame-ce" if asked == "pygame" else asked)
    fast.entry_point.cache_clear()
    try:
        ours, theirs = _classes("car_racing")
    finally:
        fast.entry_point.cache_clear()

    assert ours is theirs


@pytest.mark.parametrize(
    ("name", "seeds", "steps"),
    [
        *(("car_racing", 1, 60), ("parking", 2, 60), ("door_key", 3, 250)),
        *(pytest.param(name, 6, 250, marks=pytest.mark.nightly) for name in MINIGRID),
        pytest.param("roundabout", 8, 11, marks=pytest.mark.nightly),
    ],
)
def test_a_shortcut_plays_the_same_episodes(name: str, seeds: int, steps: int) -> None:
    """Observations, rewards, endings and what info tells are those of ``gymnasium.make``."""
    for seed in range(seeds):
        assert_plays_as_plain(catalog.load(name), seed, steps)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "seeds", "steps"),
    [("car_racing", 6, 1000), ("parking", 40, 500), ("roundabout", 60, 11), *((name, 100, 1000) for name in MINIGRID)],
)
def test_a_shortcut_plays_many_of_the_same_episodes(name: str, seeds: int, steps: int) -> None:
    """The same over many cases, played to their ends."""
    for seed in range(100, 100 + seeds):
        assert_plays_as_plain(catalog.load(name), seed, steps)


@pytest.mark.parametrize("arguments", [{"see_through_walls": True}, {"agent_view_size": 3}, {"agent_view_size": 11}])
def test_other_views_of_a_grid_stay_the_same(arguments: dict[str, Any]) -> None:
    """A view of another size, or through walls, is what minigrid itself shows."""
    spec = catalog.load("door_key")
    assert_plays_as_plain(replace(spec, arguments=spec.arguments | arguments), 3, 150)


@pytest.mark.parametrize(
    "observation",
    [
        KINEMATICS | {"order": "shuffled"},
        KINEMATICS | {"normalize": False, "absolute": True, "observe_intentions": True},
        KINEMATICS | {"vehicles_count": 3, "see_behind": True, "clip": False},
        {"type": "OccupancyGrid"},
    ],
)
def test_other_ways_to_observe_a_roundabout_stay_the_same(observation: dict[str, Any]) -> None:
    """What an author's spec asks highway-env to observe is what it observes."""
    spec = replace(catalog.load("roundabout"), arguments={"config": {"observation": observation}})
    for seed in range(3):
        assert_plays_as_plain(spec, seed, 6)


@pytest.mark.parametrize("name", ["parking", "roundabout"])
def test_the_nearest_lane_is_the_original_s(name: str) -> None:
    """Anywhere on the road and off it, also where lanes are equally near, the lane found is the simulator's own."""
    environment = Environment(catalog.load(name))
    environment.reset(3)
    network = environment._simulator.unwrapped.road.network  # type: ignore[attr-defined]
    original = type(network).__mro__[1].get_closest_lane_index
    places = np.random.default_rng(0)
    positions = [*places.uniform(-100, 100, (400, 2)), *places.integers(-24, 25, (200, 2)).astype(float), np.zeros(2)]
    headings = [*places.uniform(-9, 9, 300), *places.integers(-4, 5, 300) * np.pi / 4, 0.0]

    found = [network.get_closest_lane_index(*where) for where in zip(positions, headings, strict=True)]

    assert found == [original(network, *where) for where in zip(positions, headings, strict=True)]
    assert len(set(found)) > 10
    assert network.get_closest_lane_index(positions[0]) == original(network, positions[0])
    environment.close()


def _classes(name: str) -> tuple[type, type]:
    """Return what plays an environment, and what gymnasium registers for it."""
    spec = catalog.load(name)
    environment = Environment(spec)
    module, _, kind = str(gymnasium.spec(spec.id).entry_point).partition(":")
    environment.close()
    return type(environment._simulator.unwrapped), getattr(importlib.import_module(module), kind)
