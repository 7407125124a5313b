"""robosuite, which registers nothing with Gymnasium: here tasks of one arm are ``robosuite/<task>``.

A simulator takes its seed when it is made, so every reset makes one. Observations are numbers only.
"""

from copy import deepcopy
from functools import cache
from typing import Any

import gymnasium
import numpy as np
import robosuite
from gymnasium import spaces
from gymnasium.envs.registration import register

ROBOT = "Panda"
TASKS = ("Lift", "Door")
STEPS = 500
"""The step limit of robosuite's own benchmark: 25 seconds."""
PARTS = ("object-state", "robot0_proprio-state")
"""What an observation consists of, in this order."""


class Bench(gymnasium.Env[Any, Any]):
    """An arm with a gripper at a bench, with a reward for every step that shows the way."""

    def __init__(self, task: str) -> None:
        self._task = task
        self._simulator: Any = None
        self.observation_space, self.action_space = deepcopy(_spaces(task))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start the episode of a seed, or the next one without a seed, in a new simulator."""
        super().reset(seed=seed, options=options)
        self.close()
        self._simulator = _make(self._task, int(self.np_random.integers(2**31)))
        return _numbers(self._simulator.reset()), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:  # noqa: ANN401 - as gymnasium's
        """Play one action; an episode has no end of its own."""
        seen, reward, _, _ = self._simulator.step(action)
        success = bool(self._simulator._check_success())  # noqa: SLF001 - no other way to know
        return _numbers(seen), float(reward), False, False, {"success": success}

    def close(self) -> None:
        """Close the simulator."""
        if self._simulator is not None:
            self._simulator.close()


def _make(task: str, seed: int) -> Any:  # noqa: ANN401 - a library without types
    return robosuite.make(
        task,
        robots=ROBOT,
        seed=seed,
        reward_shaping=True,
        ignore_done=True,
        hard_reset=False,  # its model was made just now
        has_renderer=False,
        has_offscreen_renderer=False,
        use_camera_obs=False,
    )


@cache
def _spaces(task: str) -> tuple[spaces.Box, spaces.Box]:
    """Return the spaces of observations and actions; a simulator takes a second to make."""
    simulator = _make(task, 0)
    size = _numbers(simulator.reset()).size
    low, high = (bound.astype(np.float32) for bound in simulator.action_spec)
    simulator.close()
    return spaces.Box(-np.inf, np.inf, (size,), np.float64), spaces.Box(low, high)


def _numbers(parts: Any) -> Any:  # noqa: ANN401 - an array
    return np.concatenate([np.asarray(parts[name], np.float64).ravel() for name in PARTS])


for _task in TASKS:
    register(f"robosuite/{_task}", f"{__name__}:{Bench.__name__}", max_episode_steps=STEPS, kwargs={"task": _task})
