"""A simulator of one's own: a walk along a line; what it pays lies in a module beside it."""

from typing import Any

import gymnasium
import numpy as np
import own_rewards
from gymnasium import spaces


class OwnWalk(gymnasium.Env[Any, Any]):
    """Walks to the goal."""

    observation_space = spaces.Box(-10.0, 10.0, (2,), np.float32)
    action_space = spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self.place, self.goal = 0.0, self.np_random.uniform(3.0, 9.0)
        return self.observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.place = float(np.clip(self.place + action - 1, -10.0, 10.0))
        arrived = abs(self.place - self.goal) < 0.5
        return (
            self.observation(),
            own_rewards.ARRIVES if arrived else own_rewards.PAYS,
            arrived,
            False,
            {"arrived": arrived},
        )

    def observation(self) -> Any:
        return np.array([self.place, self.goal], np.float32)


gymnasium.register("OwnWalk-v0", OwnWalk)
