"""An environment as Gymnasium's programs expect one: what ``evopolicygym.load_environment`` returns."""

import os
import re
from pathlib import Path
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec
from numpy.random import Generator

from evopolicygym.core.errors import UsageError
from evopolicygym.core.task import EnvironmentSpec
from evopolicygym.environments.environment import Environment
from evopolicygym.environments.rendering import Picture, RenderedEnvironment, rendering_variables
from evopolicygym.specs import catalog

PICTURES = "rgb_array"
"""The only render mode: simulators draw into an array, no window is opened."""


class TaskEnvironment(gymnasium.Env[Any, Any]):
    """The simulator of a task with the task's own step limit, as a ``gymnasium.Env``.

    Observations, rewards and ends of episodes are those that a policy sees. Spaces are Gymnasium's; ``task`` holds the
    task's texts, limit, anchors and success rule. For an episode that repeats bit for bit make a new environment: some
    simulators remember the episode before.
    """

    metadata = {"render_modes": [PICTURES]}  # noqa: RUF012 - as gymnasium declares it

    def __init__(self, name: str | Path, render_mode: str | None = None) -> None:
        """Make the environment of this name, or of this spec's ``.toml`` file; draw it where a render mode is given.

        Raises ``UnknownName``, ``MissingExtra``, or ``UsageError`` where it can't be drawn in this mode.
        """
        if render_mode not in {None, PICTURES}:
            raise UsageError(f"Invalid render_mode: expected {PICTURES!r} or None, got {render_mode!r}.")
        self.task: EnvironmentSpec = catalog.load(name)
        self.render_mode = render_mode
        self._played = _drawn(self.task) if render_mode else Environment(self.task)
        self.spec = EnvSpec(
            id=f"EvoPolicyGym/{re.sub(r'[^A-Za-z0-9_.]', '_', self.task.name)}",
            entry_point=f"{__name__}:{type(self).__name__}",
            max_episode_steps=self.task.max_steps,
            kwargs={"name": str(name)},
        )
        self.metadata = {**type(self).metadata, "render_fps": self._played.fps}
        self._read_spaces()

    @property
    def idle_action(self) -> Any:  # noqa: ANN401 - an action of any space
        """The task's zero or no-op action; raises ``InvalidAction`` where it has none."""
        return self._played.idle_action

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; return the first observation and the simulator's info."""
        begun = self._played.restart(seed, options)
        self._read_spaces()
        return begun

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:  # noqa: ANN401 - of any space
        """Play one action of ``action_space``; return observation, reward, terminated, truncated, info."""
        return self._played.step(action)

    def render(self) -> Picture | None:
        """Return the present state as bytes of shape (height, width, 3); None without a render mode."""
        return self._played.picture() if isinstance(self._played, RenderedEnvironment) else None

    def close(self) -> None:
        """Free what the simulator holds; harmless when done before."""
        self._played.close()

    def _read_spaces(self) -> None:
        """Take over the simulator's spaces, which a reset may replace."""
        self.observation_space = self._played.simulator.observation_space
        self.action_space = self._played.simulator.action_space

    @property
    def _np_random(self) -> Generator | None:
        """The simulator's random numbers, where Gymnasium's own functions look for them."""
        return self._played.simulator.unwrapped._np_random  # noqa: SLF001 - gymnasium's

    @_np_random.setter
    def _np_random(self, generator: Generator | None) -> None:
        self._played.simulator.unwrapped._np_random = generator  # noqa: SLF001 - gymnasium's

    @property
    def _np_random_seed(self) -> int | None:
        return self._played.simulator.unwrapped._np_random_seed  # noqa: SLF001 - gymnasium's

    @_np_random_seed.setter
    def _np_random_seed(self, seed: int | None) -> None:
        self._played.simulator.unwrapped._np_random_seed = seed  # noqa: SLF001 - gymnasium's


def _drawn(task: EnvironmentSpec) -> RenderedEnvironment:
    """Return an environment that draws itself; this process gets the variables that drawing without a display needs."""
    for name, value in rendering_variables(task, os.environ).items():
        os.environ.setdefault(name, value)
    return RenderedEnvironment(task)
