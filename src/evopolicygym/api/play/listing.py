"""``evopolicygym.load_environment``, ``list_environments`` and ``list_agents``."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from evopolicygym.agents.base import AgentListing, agent_listings
from evopolicygym.core.task import Anchor, EnvironmentSpec, TaskKind
from evopolicygym.environments.environment import Environment
from evopolicygym.environments.task_environment import TaskEnvironment, load_task
from evopolicygym.environments.versions import is_installed
from evopolicygym.specs import catalog


@dataclass(frozen=True, slots=True)
class EnvironmentListing:
    """An environment and whether it is installed."""

    spec: EnvironmentSpec
    """The whole spec: texts, spaces, success rule, anchors."""
    is_installed: bool
    """Whether its simulator is installed here; ``spec.extra`` names the extra that installs it."""

    @property
    def name(self) -> str:
        """Its name."""
        return self.spec.name

    @property
    def family(self) -> str:
        """Its family, such as ``minigrid``."""
        return self.spec.family

    @property
    def kind(self) -> TaskKind:
        """``tuning`` or ``synthesis``."""
        return self.spec.kind

    @property
    def max_steps(self) -> int:
        """The most steps of an episode."""
        return self.spec.max_steps

    @property
    def random_anchor(self) -> Anchor | None:
        """The mean return of uniformly random actions, with its standard error; None if not measured."""
        return self.spec.random_anchor

    @property
    def document(self) -> dict[str, Any]:
        """The same as a JSON document."""
        return {**asdict(self.spec), "is_installed": self.is_installed}


def load_environment(name: str | Path, *, render_mode: str | None = None) -> TaskEnvironment:
    """Return an environment as a ``gymnasium.Env``, with the step limit that runs have.

    Policies see the same observations, rewards and ends of episodes. Its steps count for no run.
    ``gymnasium.make("evopolicygym/NAME")`` returns the same, in Gymnasium's wrapper.

    Args:
        name: An environment's name, a task of a pack, or the path of a spec's ``.toml`` file.
        render_mode: ``"rgb_array"`` for an environment whose ``render()`` returns an array (height, width, 3) of uint8.

    Returns:
        The environment; ``task`` holds its texts, limit and anchors, ``idle_action`` its no-op action.

    Raises:
        UnknownName: No environment has this name.
        MissingExtra: Its simulator is not installed; the message tells how to install it.
        UsageError: It can't be rendered in this mode or on this machine.

    Examples:
        >>> environment = evopolicygym.load_environment("cartpole")
        >>> observation, info = environment.reset(seed=0)
        >>> observation, reward, terminated, truncated, info = environment.step(environment.action_space.sample())
    """
    return TaskEnvironment(name, render_mode)


def load_bare_environment(name: str | Path) -> Environment:
    """Return an environment as the judge steps it, without the Gymnasium interface.

    ``reset(seed)`` returns an observation alone, ``step(action)`` five values; spaces are those of policies.

    Args:
        name: An environment's name, a task of a pack, or the path of a spec's ``.toml`` file.

    Raises:
        UnknownName: No environment has this name.
        MissingExtra: Its simulator is not installed; the message tells how to install it.

    Examples:
        >>> evopolicygym.load_bare_environment("cartpole").reset(0).shape
        (4,)
    """
    return Environment(load_task(name))


def list_environments() -> list[EnvironmentListing]:
    """Return all environments, sorted by name.

    Examples:
        >>> [environment.name for environment in evopolicygym.list_environments() if environment.family == "minigrid"]
        ['door_key', 'four_rooms', 'key_corridor', 'obstructed_maze']
    """
    specs = map(catalog.load, catalog.names())
    return [EnvironmentListing(spec, is_installed(spec)) for spec in sorted(specs, key=lambda spec: spec.name)]


def list_agents() -> list[AgentListing]:
    """Return all agents, sorted by name, each with ``about`` and ``missing``.

    Agents of other distributions are listed without running their code.

    Examples:
        >>> [agent.name for agent in evopolicygym.list_agents() if not agent.missing]
    """
    return sorted(agent_listings(), key=lambda agent: agent.name)
