"""Procgen, whose games take a level's seed at creation: here the seed of a reset is the level's.

A game continues with another level by itself, so each reset creates it anew. Every game is ``procgen/<game>``, with the
level distribution ``hard``.
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import register
from procgen_gym.env import ENV_NAMES, KEY_COMBOS, ProcgenEnv

LEVELS = 1 << 31
IDLE = KEY_COMBOS.index(())
"""The index of the action that presses no key."""


class Game(gymnasium.Env[Any, int]):
    """A game whose one level the seed of a reset decides, with all that happens in it."""

    def __init__(self, game: str, render_mode: str | None = None) -> None:
        self._game, self.render_mode = game, render_mode
        self._level: Any = None
        sample: Any = ProcgenEnv(game)
        self.metadata, self.observation_space, self.action_space = (
            sample.metadata,
            sample.observation_space,
            sample.action_space,
        )
        sample.close()

    def get_action_meanings(self) -> list[str]:
        """Return the names of the keys that each action presses."""
        return ["+".join(key.lower() for key in keys) or "noop" for keys in KEY_COMBOS]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start the level of a seed, or any level without one."""
        if seed is not None and seed >= LEVELS:
            raise ValueError(f"Invalid seed {seed}: expected less than {LEVELS}, the number of levels.")
        super().reset(seed=seed, options=options)
        level = int(self.np_random.integers(LEVELS)) if seed is None else seed
        self.close()
        self._level = ProcgenEnv(
            self._game,
            self.render_mode,
            start_level=level,
            num_levels=1,
            rand_seed=level,
            distribution_mode="hard",
        )
        observation, info = self._level.reset()
        return observation.copy(), info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:  # noqa: ANN401 - as gymnasium's
        """Play one action; the last observation belongs to the next level, which is not played."""
        observation, reward, terminated, truncated, info = self._level.step(int(action))
        return observation.copy(), reward, terminated, truncated, info

    def render(self) -> Any:  # noqa: ANN401 - as gymnasium's
        """Render the game."""
        return np.array(self._level.render())

    def close(self) -> None:
        """Close the game."""
        if self._level is not None:
            self._level.close()
            self._level = None


def _register_all() -> None:
    for game in ENV_NAMES:
        register(f"procgen/{game}", f"{__name__}:{Game.__name__}", kwargs={"game": game})


_register_all()
