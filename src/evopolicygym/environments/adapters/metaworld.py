"""Meta-World, whose ids ignore the seed of a reset: here it places the object and the goal.

Each of the fifty tasks is registered as ``Meta-World/<task>``, with its goal in the observation. MT10, MT25 and MT50,
which are registered as vector environments only, become environments that play any of their tasks: ``Meta-World/MT10``.
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import register, registry
from metaworld.env_dict import (
    ALL_V3_ENVIRONMENTS,
    ALL_V3_ENVIRONMENTS_GOAL_OBSERVABLE,
    MT10_V3,
    MT25_V3,
    MT50_V3,
)

MAX_STEPS = 500
"""The benchmark's step limit."""
BENCHMARKS = {"MT10": tuple(MT10_V3), "MT25": tuple(MT25_V3), "MT50": tuple(MT50_V3)}
"""Tasks of the benchmarks of several tasks, in their order."""


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


class AnyTask(gymnasium.Env[Any, Any]):
    """The tasks of a benchmark as one environment: the seed of a reset decides which one is played.

    An observation is the task's, followed by a number for each task, of which that of the task played is 1.
    """

    def __init__(self, benchmark: str, render_mode: str | None = None) -> None:
        self.render_mode, self._tasks, self._index = render_mode, BENCHMARKS[benchmark], 0
        self._task = make_task(self._tasks[0], render_mode)
        self.metadata = self._task.metadata
        size = int(np.prod(self._task.observation_space.shape or ())) + len(self._tasks)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (size,), np.float64)
        self.action_space = self._task.action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start the episode of a seed, which also selects the task, in a new simulator: state survives its reset."""
        super().reset(seed=seed)
        self._index = int(self.np_random.integers(len(self._tasks)))
        self._task.close()
        self._task = make_task(self._tasks[self._index], self.render_mode)
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
        which = np.zeros(len(self._tasks))
        which[self._index] = 1.0
        return np.concatenate([observation, which])


def _register_all() -> None:
    for task in ALL_V3_ENVIRONMENTS:
        name = f"{__name__}:{make_task.__name__}"
        register(f"Meta-World/{task}", name, max_episode_steps=MAX_STEPS, kwargs={"task": task})
    for benchmark in BENCHMARKS:
        spec = registry[f"Meta-World/{benchmark}"]
        spec.entry_point = f"{__name__}:{AnyTask.__name__}"
        spec.max_episode_steps = MAX_STEPS
        spec.kwargs = {"benchmark": benchmark}


_register_all()
