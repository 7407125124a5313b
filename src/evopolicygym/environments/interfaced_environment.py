"""An environment as it is played through an interface."""

from collections.abc import Callable
from typing import Any

import numpy as np

from evopolicygym.core.interface import BoundInterface
from evopolicygym.core.spaces import Space, sample
from evopolicygym.core.task import EnvironmentSpec
from evopolicygym.environments.environment import Environment


class InterfacedEnvironment:
    """Wraps an environment; observations, actions and spaces are those that the interface shows.

    Rewards, endings and ``info`` are the simulator's, so that returns, successes and parts of the reward are too.
    """

    __slots__ = ("_action_of", "_environment", "_interface", "_show_observation", "_step")

    def __init__(self, environment: Environment, interface: BoundInterface) -> None:
        self._environment, self._interface = environment, interface
        self._step = environment.step
        self._action_of, self._show_observation = interface.action_of, interface.show_observation

    @property
    def spec(self) -> EnvironmentSpec:
        """The environment's spec, as it is."""
        return self._environment.spec

    @property
    def observation_space(self) -> Space:
        """The space of observations, as shown."""
        return self._interface.observation_space

    @property
    def action_space(self) -> Space:
        """The space of actions, as shown."""
        return self._interface.action_space

    def action_reader(self) -> Callable[[Any], tuple[Any, bool]]:
        """Return the rule for actions of the space shown."""
        return self._interface.read_action

    def action_sampler(self) -> Callable[[np.random.Generator], Any]:
        """Return what draws an action uniformly at random: the one that the standard interface draws, as shown."""
        space, show = self._environment.action_space, self._interface.show_action
        return lambda random: show(sample(space, random))

    def reset(self, seed: int) -> Any:  # noqa: ANN401 - an observation of any space
        """Start the episode of a seed; return its first observation, as shown."""
        return self._show_observation(self._environment.reset(seed))

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:  # noqa: ANN401 - of any space
        """Play one action of the space shown, as ``Environment.step`` does."""
        observation, reward, terminated, truncated, info = self._step(self._action_of(action))
        return self._show_observation(observation), reward, terminated, truncated, info

    def success(self, episode_return: float, terminated: bool, info: dict[str, Any]) -> bool | None:  # noqa: FBT001 - as there
        """Return whether an episode succeeded, as ``Environment.success`` does."""
        return self._environment.success(episode_return, terminated, info)

    def close(self) -> None:
        """Close the simulator."""
        self._environment.close()


PlayedEnvironment = Environment | InterfacedEnvironment


def play_through(environment: Environment, interface: BoundInterface | None) -> PlayedEnvironment:
    """Return an environment as it is played through an interface; the environment itself where that is the standard."""
    return InterfacedEnvironment(environment, interface) if interface else environment
