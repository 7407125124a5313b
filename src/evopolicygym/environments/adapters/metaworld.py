"""Meta-World, whose ids ignore the seed of a reset: here it places the object and the goal.

Each of the benchmark's tasks is registered as ``Meta-World/<task>``, with its goal in the observation. MT10, which is
registered as a vector environment only, becomes an environment that plays any of the ten: ``Meta-World/MT10``.
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import register, registry
from metaworld.env_dict import ALL_V3_ENVIRONMENTS, ALL_V3_ENVIRONMENTS_GOAL_OBSERVABLE, MT10_V3

MAX_STEPS = 500
"""The benchmark's step limit."""
TEN = tuple(MT10_V3)


def make_task(task: str, render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
    """Return the environment of a task, such as ``pick-place-v3``."""
    make = ALL_V3_ENVIRONMENTS_GOAL_OBSERVABLE[f"{task}-goal-observable"]
    return SeededScene(make(seed=0, render_mode=render_mode))


class SeededScene(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A task whose object and goal are placed by the seed of a reset, anywhere where the task may have them."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        scene: Any = env.unwrapped
        self.observation_space = scene.sawyer_observation_space  # the environment's own hides the goal

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start the episode of a seed, or the next one without a seed."""
        scene: Any = self.unwrapped
        scene.seeded_rand_vec = True
        scene._freeze_rand_vec = False  # noqa: SLF001 - no other way to have more than one goal
        if seed is not None:
            scene.seed(seed)
        return self.env.reset(options=options)


class AnyOfTen(gymnasium.Env[Any, Any]):
    """The ten tasks of MT10 as one environment: the seed of a reset decides which one is played.

    An observation is the task's, followed by ten numbers, of which that of the task is 1.
    """

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self._task = make_task(TEN[0], render_mode)
        self.metadata = self._task.metadata
        self._index = 0
        size = int(np.prod(self._task.observation_space.shape or ())) + len(TEN)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (size,), np.float64)
        self.action_space = self._task.action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start the episode of a seed, which also selects the task."""
        super().reset(seed=seed)
        index = int(self.np_random.integers(len(TEN)))
        if index != self._index:
            self._task.close()
            self._task, self._index = make_task(TEN[index], self.render_mode), index
        observation, info = self._task.reset(seed=int(self.np_random.integers(2**31)), options=options)
        return self._with_index(observation), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:  # noqa: ANN401 - as gymnasium's
        """Play one action of the task."""
        observation, *rest = self._task.step(action)
        return self._with_index(observation), *rest

    def render(self) -> Any:  # noqa: ANN401 - as gymnasium's
        """Render the task."""
        return self._task.render()

    def close(self) -> None:
        """Close the simulator."""
        self._task.close()

    def _with_index(self, observation: Any) -> Any:  # noqa: ANN401 - as gymnasium's
        which = np.zeros(len(TEN))
        which[self._index] = 1.0
        return np.concatenate([observation, which])


def _register_all() -> None:
    for task in ALL_V3_ENVIRONMENTS:
        name = f"{__name__}:{make_task.__name__}"
        register(f"Meta-World/{task}", name, max_episode_steps=MAX_STEPS, kwargs={"task": task})
    ten = registry["Meta-World/MT10"]
    ten.entry_point = f"{__name__}:{AnyOfTen.__name__}"
    ten.max_episode_steps = MAX_STEPS


_register_all()
