"""An environment for Stable-Baselines3: train cases in order, numeric observations, actions between -1 and 1.

``project/policy.py`` defines the network's input, here and in the exported policy.
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from evopolicygym.baselines.project.policy import see
from evopolicygym.core.cases import PUBLIC_KEY, Split, derive
from evopolicygym.core.errors import UsageError
from evopolicygym.core.spaces import Box, Dict, Discrete, Space, to_schema
from evopolicygym.core.task import EnvironmentSpec
from evopolicygym.environments.environment import Environment


class TrainSeedSequence:
    """The seeds of train cases, in order, and the returns of their episodes, in the order of their ends."""

    def __init__(self, environment: str, episodes: int | None = None) -> None:
        """Yield at most ``episodes`` seeds; None: without a limit."""
        self._seeds = derive(PUBLIC_KEY, environment).seeds[Split.TRAIN]
        self._limit = episodes
        self.played = 0
        """Number of started episodes."""
        self.returns: list[float] = []
        """Returns of ended episodes."""

    @property
    def first(self) -> int:
        """The seed of the first train case, with which spaces are inspected."""
        return self._seeds[0]

    @property
    def is_exhausted(self) -> bool:
        """Whether no case is left."""
        return self._limit is not None and self.played >= self._limit

    def next(self) -> int:
        """Return the seed of the next case; raise ``LookupError`` if none is left."""
        if self.is_exhausted:
            raise LookupError(f"all {self.played} episodes of the budget have been played")
        seed = self._seeds[self.played % len(self._seeds)]
        self.played += 1
        return seed


PICTURE, VECTOR = "picture", "vector"
"""Parts of an observation with a picture; others are only the vector."""
CAR_RACING, MINIGRID = (96, 96, 3), (7, 7, 3)
"""Shapes of supported pictures."""
MAX_DIMENSIONS = 2
"""Most dimensions of an array that is flattened to a vector."""


class TrainEnvironment(gymnasium.Env[Any, Any]):
    """Plays the cases of a seed sequence, each in a new environment, like the judge.

    Raises ``UsageError`` for observation and action spaces without a network.
    """

    def __init__(self, spec: EnvironmentSpec, seeds: TrainSeedSequence) -> None:
        self._spec, self._seeds = spec, seeds
        self._environment = Environment(spec)
        first = self._environment.reset(seeds.first)
        observations, actions = self._environment.observation_space, self._environment.action_space
        if not _is_supported(observations) or not isinstance(actions, Discrete | Box):
            raise UsageError(
                f"Baselines can't be trained in the environment {spec.name!r}: supported observations are vectors, "
                f"tables, goals, MiniGrid's views and CarRacing's picture; supported actions are Discrete and Box."
            )
        self._schema = to_schema(observations)
        self._input: Any = self._network_input(first)
        self.observation_space = _space_of(self._input)
        self._start, self._low, self._width = 0, np.zeros(0), np.zeros(0)
        if isinstance(actions, Discrete):
            self._start = actions.start
            self.action_space = spaces.Discrete(actions.n)
        else:
            low, high = actions.limits()
            self._low, self._width, self._dtype = low, high - low, actions.dtype
            self.action_space = spaces.Box(-1.0, 1.0, actions.shape, np.float32)
        self._return = 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:  # noqa: ARG002 - the sequence decides
        """Start the next case; if none is left, return the last observation and start nothing."""
        if not self._seeds.is_exhausted:
            self._environment.close()
            self._environment = Environment(self._spec)
            self._input, self._return = self._network_input(self._environment.reset(self._seeds.next())), 0.0
        return self._input, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:  # noqa: ANN401 - of either space
        """Take a step with an action between -1 and 1, or a choice counted from 0."""
        observation, reward, terminated, truncated, _ = self._environment.step(self._environment_action(action))
        self._input = self._network_input(observation)
        self._return += reward
        if terminated or truncated:
            self._seeds.returns.append(self._return)
        return self._input, reward, terminated, truncated and not terminated, {}

    def close(self) -> None:
        """Close the environment."""
        self._environment.close()

    def _environment_action(self, action: Any) -> Any:  # noqa: ANN401 - as above
        if isinstance(self.action_space, spaces.Discrete):
            return int(action) + self._start
        unit = (np.clip(np.asarray(action, dtype=np.float64), -1, 1) + 1) / 2
        return (self._low + unit * self._width).astype(self._dtype)

    def _network_input(self, observation: Any) -> Any:  # noqa: ANN401 - of any space
        picture, vector = see(self._schema, observation)
        return {PICTURE: picture, VECTOR: vector} if picture.size else vector


def _is_supported(space: Space) -> bool:
    match space:
        case Box():
            return len(space.shape) <= MAX_DIMENSIONS or space.shape == CAR_RACING
        case Dict():
            parts = dict(space.spaces)
            view = parts.get("image")
            is_view = isinstance(view, Box) and view.shape == MINIGRID and "direction" in parts
            return is_view or {"observation", "achieved_goal", "desired_goal"} <= parts.keys()
        case _:
            return False


def _space_of(value: Any) -> spaces.Space[Any]:  # noqa: ANN401 - an array, or arrays by name
    if isinstance(value, dict):
        return spaces.Dict({name: _space_of(part) for name, part in value.items()})
    return spaces.Box(-np.inf, np.inf, value.shape, np.float32)
