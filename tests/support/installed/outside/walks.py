"""A simulator that a pack's import registers."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Walk(gymnasium.Env[Any, Any]):
    """A walk along a line."""

    observation_space = spaces.Box(0.0, 9.0, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self.place = 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.place += int(action)
        return self._observe(), float(action), self.place == 5, False, {}

    def _observe(self) -> Any:
        return np.array([self.place], np.float32)


gymnasium.register("Walk-v0", Walk)
