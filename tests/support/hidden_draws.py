"""A simulator that pays for the action that it draws itself: whoever draws from its stream is right."""

from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces

from evopolicygym.core.spaces import sample
from evopolicygym.environments.spaces import from_gymnasium


class HiddenDraw(gymnasium.Env[Any, Any]):
    """Pays 1 for the action that it drew, else nothing; raises on numbers that are too large."""

    observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)
    ACTION_SPACES: ClassVar[dict[str, spaces.Space[Any]]] = {
        "discrete": spaces.Discrete(1000),
        "box": spaces.Box(-1.0, 1.0, (2,), np.float32),
        "boundless": spaces.Box(-np.inf, np.inf, (2,), np.float32),
    }

    def __init__(self, actions: str) -> None:
        self.action_space = self.ACTION_SPACES[actions]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if np.abs(action).max() > 1e6:
            raise OverflowError("the numbers are too large")
        drawn = sample(from_gymnasium(self.action_space), self.np_random)
        return np.zeros(1, np.float32), float(np.array_equal(action, drawn)), False, False, {}


gymnasium.register("HiddenDraw-v0", entry_point=HiddenDraw)
