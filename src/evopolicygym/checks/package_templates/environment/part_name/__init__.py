"""A simulator: a walk along a line to a goal, against the wind. Importing the module registers it."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

END, NEAR = 10.0, 0.5


class Walk(gymnasium.Env[NDArray[np.float32], np.int64]):
    """All that is random is drawn from ``self.np_random``, so that a seed determines the whole episode."""

    def __init__(self, wind: float = 0.0) -> None:
        self.observation_space = spaces.Box(-END, END, (2,), np.float32)
        self.action_space = spaces.Discrete(3)
        self._wind, self._place, self._goal = wind, 0.0, 0.0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed, options=options)
        self._place, self._goal = 0.0, self.np_random.uniform(3.0, 9.0)
        return self._observation(), {}

    def step(self, action: np.int64) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Take a step; the limit of steps is that of the TOML file."""
        moved = self._place + (int(action) - 1) + self._wind * self.np_random.normal()
        self._place = float(np.clip(moved, -END, END))
        arrived = abs(self._place - self._goal) < NEAR
        return self._observation(), 1.0 if arrived else -0.1, arrived, False, {"arrived": arrived}

    def _observation(self) -> NDArray[np.float32]:
        return np.array([self._place, self._goal], np.float32)


gymnasium.register("part_name-v0", "part_name:Walk")
