"""A task as a ``gymnasium.Env``: what ``evopolicygym.load_environment`` returns."""

import os
from pathlib import Path
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec
from numpy.random import Generator

from evopolicygym.core.errors import UsageError
from evopolicygym.core.pack import NAMESPACE
from evopolicygym.core.task import EnvironmentSpec
from evopolicygym.environments.derived import pack_environment
from evopolicygym.environments.environment import Environment
from evopolicygym.environments.gymnasium_ids import task_spec
from evopolicygym.environments.rendering import RENDER_MODE, Picture, RenderedEnvironment, rendering_variables
from evopolicygym.packs.installation import interpreter
from evopolicygym.specs import catalog, pack_catalog


class TaskEnvironment(gymnasium.Env[Any, Any]):
    """The simulator of a task with the task's own step limit, as a ``gymnasium.Env``.

    Observations, rewards and ends of episodes are those that a policy sees. Spaces are Gymnasium's; ``task`` has the
    task's texts, limit, anchors and success rule. For reproducible episodes, create a new environment for each: some
    simulators keep state between episodes.
    """

    metadata = {"render_modes": [RENDER_MODE]}  # noqa: RUF012 - as gymnasium declares it

    def __init__(self, name: str | Path, render_mode: str | None = None) -> None:
        """Create the environment of a name or of a spec's ``.toml`` file; a render mode lets it render.

        Raises ``UnknownName``, ``MissingExtra``, or ``UsageError`` if it can't be rendered in this mode, or plays on
        another Python than this one.
        """
        if render_mode not in {None, RENDER_MODE}:
            raise UsageError(f"Invalid render_mode: expected {RENDER_MODE!r} or None, got {render_mode!r}.")
        self.task: EnvironmentSpec = load_task(name)
        self.render_mode = render_mode
        self._environment = _rendered(self.task) if render_mode else Environment(self.task)
        self.spec = task_spec(self.task.name, str(name))
        self.metadata = {**type(self).metadata, "render_fps": self._environment.fps}
        self._read_spaces()

    @property
    def spec(self) -> EnvSpec:
        """Gymnasium's registration, with the task's step limit, which ``gymnasium.make`` doesn't know."""
        return self._spec

    @spec.setter
    def spec(self, spec: EnvSpec) -> None:
        self._spec = spec
        if spec.max_episode_steps is None:
            spec.max_episode_steps = self.task.max_steps

    @property
    def idle_action(self) -> Any:  # noqa: ANN401 - an action of any space
        """The task's zero or no-op action; raises ``InvalidAction`` if it has none."""
        return self._environment.idle_action

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode; return the first observation and the simulator's info."""
        start = self._environment.restart(seed, options, convert=False)
        self._read_spaces()
        return start

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:  # noqa: ANN401 - of any space
        """Play one action of ``action_space``; return observation, reward, terminated, truncated, info."""
        return self._environment.step(action)

    def render(self) -> Picture | None:
        """Return the current state as bytes of shape (height, width, 3); None without a render mode."""
        return self._environment.picture() if isinstance(self._environment, RenderedEnvironment) else None

    def close(self) -> None:
        """Close the simulator; further calls do nothing."""
        self._environment.close()

    def _read_spaces(self) -> None:
        """Copy the simulator's spaces, which a reset may replace."""
        self.observation_space = self._environment.simulator.observation_space
        self.action_space = self._environment.simulator.action_space

    @property
    def _np_random(self) -> Generator | None:
        """The simulator's random generator, under the name that Gymnasium uses."""
        return self._environment.simulator.unwrapped._np_random  # noqa: SLF001 - gymnasium's

    @_np_random.setter
    def _np_random(self, generator: Generator | None) -> None:
        self._environment.simulator.unwrapped._np_random = generator  # noqa: SLF001 - gymnasium's

    @property
    def _np_random_seed(self) -> int | None:
        return self._environment.simulator.unwrapped._np_random_seed  # noqa: SLF001 - gymnasium's

    @_np_random_seed.setter
    def _np_random_seed(self, seed: int | None) -> None:
        self._environment.simulator.unwrapped._np_random_seed = seed  # noqa: SLF001 - gymnasium's


def load_task(name: str | Path) -> EnvironmentSpec:
    """Return the spec of a name, of a ``.toml`` file, or of a task of a pack that plays on this Python."""
    name = str(name).removeprefix(f"{NAMESPACE}/")
    entry = None if name.endswith(catalog.SUFFIX) or name in catalog.names() else pack_catalog.find(name)
    if entry is None:
        return catalog.load(name)
    pack, task = entry
    spec = pack_environment(pack, task)
    if spec.pack:
        raise UsageError(
            f"{spec.name} plays on the Python of its pack {pack.name!r}, {interpreter(pack.name)}, and not in this "
            f"process: evopolicygym run {spec.name}."
        )
    return spec


def _rendered(task: EnvironmentSpec) -> RenderedEnvironment:
    """Return an environment that can render; sets environment variables of this process for rendering."""
    for name, value in rendering_variables(task, os.environ).items():
        os.environ.setdefault(name, value)
    return RenderedEnvironment(task)
