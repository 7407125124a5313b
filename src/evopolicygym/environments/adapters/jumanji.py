"""Jumanji, whose environments are functions of JAX in a registry of their own: here each is ``jumanji/<id>``.

Jumanji's own wrapper reports an episode as terminated while it goes on, and as truncated whenever it ends, and gives
arrays without a dimension where its spaces promise integers.
"""

from copy import copy, deepcopy
from functools import cache
from typing import Any

import gymnasium
import jumanji
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import register
from jumanji.wrappers import JumanjiToGymWrapper


class Game(gymnasium.Env[Any, Any]):
    """A game of Jumanji; the seed of a reset is its random key."""

    def __init__(self, game: str) -> None:
        self._game: Any = copy(_make_game(game))  # compiled functions are shared, state is not
        self.observation_space = _observation_space(game, self._game)
        self.action_space = deepcopy(self._game.action_space)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start the game of a seed, or the next one without a seed."""
        super().reset(seed=seed)
        observation, info = self._game.reset(seed=seed, options=options)
        return _convert(self.observation_space, observation), dict(info or {})

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:  # noqa: ANN401 - as gymnasium's
        """Play one action; the last step is truncated if more reward could have followed, else terminated."""
        observation, reward, discounted, last, info = self._game.step(action)
        observation = _convert(self.observation_space, observation)
        return observation, reward, last and not discounted, last and discounted, dict(info or {})

    def close(self) -> None:
        """Close the game."""
        self._game.close()


def _observation_space(game: str, made: Any) -> Any:  # noqa: ANN401 - a library without types
    space = deepcopy(made.observation_space)
    if game.startswith("TSP-"):  # before the first city the position is -1, which its own space lacks
        space["position"] = spaces.Discrete(int(space["position"].n) + 1, start=-1)
    return space


def _convert(space: spaces.Space[Any], value: Any) -> Any:  # noqa: ANN401 - a value of any space
    """Return a value with the types of its space."""
    match space:
        case spaces.Dict():
            return {name: _convert(part, value[name]) for name, part in space.items()}
        case spaces.Discrete():
            return int(value)
        case _:
            return np.asarray(value, space.dtype)


@cache
def _make_game(game: str) -> Any:  # noqa: ANN401 - a library without types
    return JumanjiToGymWrapper(jumanji.make(game))


def _register_all() -> None:
    for game in jumanji.registered_environments():
        register(f"jumanji/{game}", f"{__name__}:{Game.__name__}", kwargs={"game": game})


_register_all()
