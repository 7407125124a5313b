"""Craftax, whose environments are functions of JAX: here each is ``craftax/<id>``, seeded by a reset.

Compiling takes most of a minute. Compiled code is cached in the user's cache directory for later processes.
"""

import os
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium
import jax
import numpy as np
from craftax.craftax.constants import Action
from craftax.craftax_classic.constants import Action as ClassicAction
from craftax.craftax_env import make_craftax_env_from_name
from gymnasium import spaces
from gymnasium.envs.registration import register

IDS = ("Craftax-Symbolic-v1", "Craftax-Pixels-v1", "Craftax-Classic-Symbolic-v1", "Craftax-Classic-Pixels-v1")
LARGEST = 2**32
"""Exclusive bound of the two numbers of a random key."""


class Game(gymnasium.Env[Any, int]):
    """A world that the seed of a reset decides, with all that happens in it."""

    def __init__(self, game: str) -> None:
        self._game = _make_game(game)
        self._actions = ClassicAction if "Classic" in game else Action
        space = self._game.observation_space(self._game.default_params)
        self.observation_space = spaces.Box(
            float(np.min(space.low)), float(np.max(space.high)), space.shape, np.float32
        )
        self.action_space = spaces.Discrete(len(self._actions))
        self._state: Any = None
        self._key: Any = None

    def get_action_meanings(self) -> list[str]:
        """Return the game's own names of the actions."""
        return [action.name.lower() for action in self._actions]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start the world of a seed, or any world without one."""
        super().reset(seed=seed, options=options)
        key = jax.numpy.asarray(self.np_random.integers(LARGEST, size=2), np.uint32)
        self._key, start_key = jax.random.split(jax.random.wrap_key_data(key))
        observation, self._state = self._game.reset(start_key, self._game.default_params)
        return np.array(observation, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:  # noqa: ANN401 - as gymnasium's
        """Play one action."""
        self._key, key = jax.random.split(self._key)
        observation, self._state, reward, done, info = self._game.step(
            key, self._state, int(action), self._game.default_params
        )
        infos = {name: float(value) for name, value in info.items()} if done else {}
        return np.array(observation, np.float32), float(reward), bool(done), False, infos


@cache
def _make_game(game: str) -> Any:  # noqa: ANN401 - a library without types
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "evopolicygym" / "jax"
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    jax.config.update("jax_compilation_cache_dir", str(cache))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    return make_craftax_env_from_name(game, auto_reset=False)


def _register_all() -> None:
    for game in IDS:
        register(f"craftax/{game}", f"{__name__}:{Game.__name__}", kwargs={"game": game})


_register_all()
