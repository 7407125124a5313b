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
        self._game: Any = copy(_compiled(game))  # its state is its own, its compiled functions are shared
        self.observation_space = deepcopy(self._game.observation_space)
        self.action_space = deepcopy(self._game.action_space)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin the game that a seed stands for; without one, the next one."""
        super().reset(seed=seed)
        observation, info = self._game.reset(seed=seed, options=options)
        return _of(self.observation_space, observation), dict(info or {})

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:  # noqa: ANN401 - as gymnasium's
        """Play one action; the last step is truncated where more reward could have followed it, else terminated."""
        observation, reward, discounted, last, info = self._game.step(action)
        observation = _of(self.observation_space, observation)
        return observation, reward, last and not discounted, last and discounted, dict(info or {})

    def close(self) -> None:
        """Free what the game holds."""
        self._game.close()


def _of(space: spaces.Space[Any], value: Any) -> Any:  # noqa: ANN401 - a value of any space
    """Return a value in the types that its space promises."""
    match space:
        case spaces.Dict():
            return {name: _of(part, value[name]) for name, part in space.items()}
        case spaces.Discrete():
            return int(value)
        case _:
            return np.asarray(value, space.dtype)


@cache
def _compiled(game: str) -> Any:  # noqa: ANN401 - a library without types
    return JumanjiToGymWrapper(jumanji.make(game))


def _register_all() -> None:
    for game in jumanji.registered_environments():
        register(f"jumanji/{game}", f"{__name__}:{Game.__name__}", kwargs={"game": game})


_register_all()
