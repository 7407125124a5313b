"""The environment that a spec declares, and the same environment through an interface."""

import copy
import inspect
import io
import logging
import os
import sys
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr
from enum import EnumMeta
from importlib import import_module
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec, load_env_creator

from evopolicygym.core.cases import SEED_BITS, SHORT_SEED_BITS, short_seed
from evopolicygym.core.errors import UnregisteredId, UsageError
from evopolicygym.core.interface import BoundInterface
from evopolicygym.core.spaces import Space, action_reader, sample
from evopolicygym.core.task import EnvironmentSpec, SuccessRule
from evopolicygym.environments import fast
from evopolicygym.environments.spaces import (
    Convert,
    from_gymnasium,
    from_json,
    policy_observations,
    simulator_actions,
)
from evopolicygym.environments.versions import not_installed, registration
from evopolicygym.environments.world import CRASHED, WorldSimulator

LONG_SEED = (1 << SEED_BITS) - 1
"""A seed that simulators with 32-bit or 64-bit seeds reject."""
EXPECTED = "Expected a gymnasium.Env: one agent that plays one episode at a time. A wrapper that is one works."
DEFAULT_FPS = 30.0
_log = logging.getLogger(__name__)


class Environment:
    """A freshly constructed simulator that plays one episode after ``reset``.

    For speed, Gymnasium's wrappers that only check or count are left out: actions must be validated by
    ``core.spaces.action_reader``, ``reset`` must precede ``step``, and ``step`` counts to ``max_steps`` itself.
    Wrappers of a registration are kept. For reproducible episodes, construct a new environment for each: some
    simulators keep state between episodes.

    Raises ``MissingExtra`` if the simulator isn't installed and ``UnregisteredId`` if its id is unknown. Exceptions of
    the simulator's ``reset`` and ``step`` are passed on.
    """

    __slots__ = ("_max_steps", "_observe", "_simulator", "_simulator_step", "_steps", "_to_simulator", "spec")

    def __init__(self, spec: EnvironmentSpec, world_seed: int = 0) -> None:
        """Create the simulator; ``world_seed`` seeds its world's random parameters (``environments/world.py``)."""
        self.spec = spec
        self._simulator = _make(spec)
        if spec.world is not None:
            self._simulator = WorldSimulator(self._simulator, spec, spec.world, world_seed)
        self._simulator_step = self._simulator.step
        self._max_steps = spec.max_steps
        self._steps = 0
        self._to_simulator: Convert | None = None
        self._observe: Convert | None = None

    @property
    def observation_space(self) -> Space:
        """The space of observations, with the spec's meanings; read it after a reset, which may replace it."""
        meanings = self.spec.observation
        if isinstance(self._simulator, WorldSimulator):
            meanings = self._simulator.keep_meanings(meanings)
        return from_gymnasium(self._simulator.observation_space, meanings, meanings)

    @property
    def action_space(self) -> Space:
        """The space of actions, with the spec's meanings; read it after a reset, which may replace it."""
        return from_gymnasium(self._simulator.action_space, self.spec.action, self.spec.action)

    def action_reader(self) -> Callable[[Any], tuple[Any, bool]]:
        """Return the validator of actions (``core.spaces.action_reader``); call it after a reset."""
        return action_reader(self.action_space)

    def action_sampler(self) -> Callable[[np.random.Generator], Any]:
        """Return a function that draws an action uniformly at random; call it after a reset."""
        space = self.action_space
        return lambda random: sample(space, random)

    @property
    def idle_action(self) -> Any:  # noqa: ANN401 - an action of any space
        """The spec's zero or no-op action, ready for ``step``; raises ``InvalidAction`` if it is invalid."""
        space = self.action_space
        return action_reader(space)(from_json(space, self.spec.idle_action))[0]

    @property
    def action_meanings(self) -> tuple[str, ...]:
        """The simulator's names for the values of a Discrete action; empty if it has none."""
        simulator = self._simulator.unwrapped
        if callable(get := getattr(simulator, "get_action_meanings", None)):  # Atari's
            return tuple(map(str, get()))
        actions = getattr(simulator, "actions", None)  # MiniGrid's
        return tuple(actions.__members__) if isinstance(actions, EnumMeta) else ()

    @property
    def docstring(self) -> str:
        """The docstring of the simulator's class, else of its module; empty if neither has one."""
        own = type(self._simulator.unwrapped)
        if own.__doc__ and own.__doc__ != gymnasium.Env.__doc__:
            return inspect.cleandoc(own.__doc__)
        module = None if own.__module__ == "__main__" else sys.modules.get(own.__module__)  # there it is ours
        return inspect.cleandoc(getattr(module, "__doc__", None) or "")

    @property
    def step_limit(self) -> int | None:
        """The registered step limit, or the simulator's own; None if there is none."""
        registered = registration(self.spec).max_episode_steps
        own = getattr(self._simulator.unwrapped, "max_steps", None)  # MiniGrid's
        return registered or (own if isinstance(own, int) and own > 0 else None)

    @property
    def simulator(self) -> "gymnasium.Env[Any, Any]":
        """The simulator itself, with Gymnasium's spaces."""
        return self._simulator

    @property
    def fps(self) -> float:
        """Its natural speed in steps per second; some simulators set it at the first picture."""
        fps = (self._simulator.metadata or {}).get("render_fps")
        return float(fps) if fps else DEFAULT_FPS

    def reset(self, seed: int) -> Any:  # noqa: ANN401 - an observation of any space
        """Start the episode of a seed; return its first observation.

        If the simulator refuses more than 31 bits, the first 31 bits of the seed are used.
        """
        return self.restart(seed)[0]

    def restart(
        self, seed: int | None, options: dict[str, Any] | None = None, *, convert: bool = True
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode, with any seed if ``seed`` is None; return its first observation and info.

        Without ``convert``, observations and actions of this episode are values of the simulator's own spaces.
        """
        self._steps = 0
        given = {} if options is None else {"options": options}
        try:
            observation, info = self._simulator.reset(seed=seed, **given)
        except Exception:
            if seed is None or (short := short_seed(seed)) is None:
                raise
            observation, info = self._simulator.reset(seed=short, **given)
        self._to_simulator = simulator_actions(self._simulator.action_space) if convert else None
        self._observe = policy_observations(self._simulator.observation_space) if convert else None
        return (self._observe(observation) if self._observe else observation), info

    def seed_bits(self) -> int:
        """Return the number of seed bits that the simulator accepts; it must be reset afterwards."""
        try:
            self._simulator.reset(seed=LONG_SEED)
        except Exception:  # noqa: BLE001 - whatever a simulator raises
            return SHORT_SEED_BITS
        return SEED_BITS

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:  # noqa: ANN401 - of any space
        """Play one action; return observation, reward, terminated, truncated, info.

        As in gymnasium's TimeLimit, the last allowed step is truncated even if it also terminates.
        """
        if self._to_simulator:
            action = self._to_simulator(action)
        observation, reward, terminated, truncated, info = self._simulator_step(action)
        self._steps += 1
        return (
            self._observe(observation) if self._observe else observation,
            as_number(reward),
            bool(terminated),
            self._steps >= self._max_steps or bool(truncated),
            info,
        )

    def success(self, episode_return: float, terminated: bool, info: dict[str, Any]) -> bool | None:  # noqa: FBT001 - as step returns it
        """Return whether an episode succeeded, from its return and its last step; None without a success rule."""
        success = self.spec.success
        if success is None:
            return None
        match success.rule:
            case SuccessRule.INFO:
                return bool(info.get(success.key, False))
            case SuccessRule.INFO_WITHOUT_CRASH:
                return bool(info.get(success.key, False)) and not info.get(CRASHED, False)
            case SuccessRule.TERMINATED:
                return terminated
            case SuccessRule.POSITIVE_RETURN:
                return episode_return > 0

    def close(self) -> None:
        """Close the simulator; no other method may be called afterwards."""
        self._simulator.close()


def as_number(reward: Any) -> float:  # noqa: ANN401 - whatever a simulator returns
    """Return a reward as a float, also one in an array of one element; raise ``TypeError`` or ``ValueError``."""
    return float(reward.item() if isinstance(reward, np.ndarray) else reward)


def _make(spec: EnvironmentSpec) -> gymnasium.Env[Any, Any]:
    _hide_pygame_window()
    try:
        if "mujoco" in spec.packages:
            _log_mujoco()
        with warnings.catch_warnings():
            # Box2D's SWIG bindings warn while they are imported, on Python 3.11 and later; which can't be avoided
            warnings.filterwarnings("ignore", "builtin type .* has no __module__ attribute", DeprecationWarning)
            registered = _bare_registration(spec)
            _check_kind(registered)
            return gymnasium.make(registered, **copy.deepcopy(spec.arguments))
    except ModuleNotFoundError as error:
        raise not_installed(spec, str(error.name)) from error
    except gymnasium.error.DependencyNotInstalled as error:
        raise not_installed(spec, _root_module(error)) from error


def _bare_registration(spec: EnvironmentSpec) -> EnvSpec:
    """Return gymnasium's registration of an id without the wrappers that only check or count."""
    with redirect_stderr(io.StringIO()):  # gymnasium-robotics prints a notice about its other environments
        for module in spec.registering_modules:
            import_module(module)
    try:
        bare = copy.deepcopy(registration(spec))
    except gymnasium.error.Error as error:
        raise UnregisteredId(
            f"Unknown gymnasium id {spec.id!r} of the environment {spec.name!r}: {error} "
            f'If a package registers it, name its module: imports = ["MODULE"] in a TOML file, or MODULE:{spec.id}.'
        ) from error
    if isinstance(bare.entry_point, str) and not (spec.world and spec.world.changes_simulator):
        bare.entry_point = fast.entry_point(bare.entry_point)
    # A wrapper such as TimeAwareObservation reads the limit, which must thus be there and be the one that counts.
    bare.max_episode_steps = (spec.max_steps or bare.max_episode_steps) if bare.additional_wrappers else None
    bare.order_enforce = False
    bare.disable_env_checker = True
    return bare


def _check_kind(registered: EnvSpec) -> None:
    """Raise ``UsageError`` if an id is a vector environment only, or not a ``gymnasium.Env``."""
    if registered.entry_point is None:
        raise UsageError(f"{registered.id} is registered as a vector of environments only. {EXPECTED}")
    creator = _creator(registered)
    if isinstance(creator, type) and not issubclass(creator, gymnasium.Env):
        raise UsageError(f"{registered.id} is a {creator.__module__}.{creator.__qualname__}. {EXPECTED}")


def registered_class(spec: EnvironmentSpec) -> object:
    """Return the class or function that creates a spec's simulator."""
    return _creator(registration(spec))


def _creator(registered: EnvSpec) -> object:
    entry_point = registered.entry_point
    return load_env_creator(entry_point) if isinstance(entry_point, str) else entry_point


def _hide_pygame_window() -> None:
    """Let pygame draw without a screen, unless the user set a driver."""
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")


def _log_mujoco() -> None:
    """Send MuJoCo's warnings to the log instead of a file in the working directory."""
    import_module("mujoco").set_mju_user_warning(_log.warning)


def _root_module(error: BaseException) -> str:
    """Return the missing module that caused an error, or the error's message."""
    cause = error.__cause__
    return str(cause.name) if isinstance(cause, ModuleNotFoundError) else str(error)


class InterfacedEnvironment:
    """Wraps an environment; the interface transforms observations, actions and spaces.

    Rewards, ends of episodes and ``info`` are the simulator's, and so are returns and successes.
    """

    __slots__ = ("_action_of", "_environment", "_interface", "_show_observation", "_step")

    def __init__(self, environment: Environment, interface: BoundInterface) -> None:
        self._environment, self._interface = environment, interface
        self._step = environment.step
        self._action_of, self._show_observation = interface.action_of, interface.show_observation

    @property
    def spec(self) -> EnvironmentSpec:
        """The environment's spec, which the interface doesn't change."""
        return self._environment.spec

    @property
    def observation_space(self) -> Space:
        """The transformed space of observations."""
        return self._interface.observation_space

    @property
    def action_space(self) -> Space:
        """The transformed space of actions."""
        return self._interface.action_space

    def action_reader(self) -> Callable[[Any], tuple[Any, bool]]:
        """Return the validator of transformed actions."""
        return self._interface.read_action

    def action_sampler(self) -> Callable[[np.random.Generator], Any]:
        """Return a function that draws the action that the standard interface would draw, and transforms it."""
        space, show = self._environment.action_space, self._interface.show_action
        return lambda random: show(sample(space, random))

    def reset(self, seed: int) -> Any:  # noqa: ANN401 - an observation of any space
        """Start the episode of a seed; return its first observation, transformed."""
        return self._show_observation(self._environment.reset(seed))

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:  # noqa: ANN401 - of any space
        """Play one transformed action; see ``Environment.step``."""
        observation, reward, terminated, truncated, info = self._step(self._action_of(action))
        return self._show_observation(observation), reward, terminated, truncated, info

    def success(self, episode_return: float, terminated: bool, info: dict[str, Any]) -> bool | None:  # noqa: FBT001 - as there
        """Return whether an episode succeeded; see ``Environment.success``."""
        return self._environment.success(episode_return, terminated, info)

    def close(self) -> None:
        """Close the simulator."""
        self._environment.close()


PlayedEnvironment = Environment | InterfacedEnvironment


def play_through(environment: Environment, interface: BoundInterface | None) -> PlayedEnvironment:
    """Return an environment wrapped by an interface; the environment itself if ``interface`` is None."""
    return InterfacedEnvironment(environment, interface) if interface else environment
