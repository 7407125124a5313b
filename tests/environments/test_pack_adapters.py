"""Adapters: a simulator that ignores the seed of a reset repeats an episode by it, beside a pack's own check."""

import importlib
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import gymnasium
import pytest
from gymnasium.envs.registration import register, registry

GAME = "FakeHack-v0"
ADAPTER = "evopolicygym.environments.adapters.nle"


class Game(gymnasium.Env[int, int]):
    """Takes seeds as NetHack does: by a method, and none from a reset."""

    observation_space = gymnasium.spaces.Discrete(9)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, actions: Any = (0, 1), max_episode_steps: int = 5000) -> None:
        self.actions, self.limit = actions, max_episode_steps
        self.calls: list[Any] = []

    def seed(self, core: int, disp: int, *, reseed: bool) -> None:
        self.calls.append((core, disp, reseed))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self.calls.append(seed)
        return 0, {}


@pytest.fixture
def adapted(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yield the id of a game that stands in for NetHack, whose adapter is loaded."""
    modules = {name: ModuleType(name) for name in ("nle", "nle.fake", "nle.nethack")}
    modules["nle.fake"].Game = Game  # type: ignore[attr-defined]
    modules["nle.nethack"].ACTIONS = (107, 108, 106)  # type: ignore[attr-defined]
    modules["nle"].nethack = modules["nle.nethack"]  # type: ignore[attr-defined]
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, ADAPTER, raising=False)
    register(GAME, "nle.fake:Game", disable_env_checker=True, order_enforce=False)
    importlib.import_module(ADAPTER)
    yield GAME
    sys.modules.pop(ADAPTER, None)
    registry.pop(GAME)


def test_the_seed_of_a_reset_seeds_the_game(adapted: str) -> None:
    """A game of NetHack is seeded before it is reset, and a reset without a seed follows from the last one with one."""

    def calls() -> list[Any]:
        environment = gymnasium.make(adapted)
        environment.reset(seed=7)
        environment.reset()
        game: Any = environment.unwrapped
        return list(game.calls)

    first, reset, (core, display, reseed), again = calls()
    assert (first, reset, again, core == display, core != 7, reseed) == ((7, 7, False), None, None, True, True, False)
    assert calls()[2] == (core, display, reseed)


def test_a_pack_names_a_set_of_actions(adapted: str) -> None:
    """A game is made with its own actions, or with those whose name is given; its own limit never ends an episode."""
    own, named = (gymnasium.make(adapted, **words).unwrapped for words in ({}, {"actions": "ACTIONS"}))

    assert (own.actions, named.actions) == ((0, 1), (107, 108, 106))  # type: ignore[attr-defined]
    assert own.limit > 10**6  # type: ignore[attr-defined]


def test_other_environments_are_left_alone(adapted: str) -> None:
    """The adapter of NetHack wraps no other simulator's ids."""
    assert registry[adapted].additional_wrappers
    assert registry["CartPole-v1"].additional_wrappers == ()
