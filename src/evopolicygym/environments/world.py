"""Applies a world to a simulator, as a wrapper.

Observations pass through ``drop``, noise and delay; actions pass through delay and noise. Noise and jitter have a
random stream of their own, seeded by the case and the experiment, so that the simulator's draws don't change. Physical
parameters are drawn once from ``world_seed``, each from its own stream.
"""

import copy
import hashlib
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from types import FunctionType, MethodType
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.random import Generator, default_rng
from numpy.typing import NDArray

from evopolicygym.core.errors import UsageError
from evopolicygym.core.spaces import InvalidAction, action_reader, sample
from evopolicygym.core.task import EnvironmentSpec
from evopolicygym.core.world import Spread, World, parse_entries
from evopolicygym.environments.spaces import from_gymnasium, from_json

Array = NDArray[Any]
Change = Callable[[Any], Any]
"""Returns a changed observation or action."""
CRASHED = "crashed"
"""The key of ``info`` with which highway-env reports a crash."""
BLOCK = 4096
"""Random numbers that are drawn at once."""
FREE, BALL = 0, 1
"""MuJoCo's joint types whose positions are not limited numbers."""


class WorldSimulator(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A simulator in a world other than the standard one."""

    def __init__(self, simulator: "gymnasium.Env[Any, Any]", spec: EnvironmentSpec, world: World, seed: int) -> None:
        """Draw the world's parameters from ``seed``; raise ``UsageError`` if the simulator lacks one."""
        super().__init__(simulator)
        self._spec, self._world, self._seed = spec, world, seed
        self._judged_keys = (*spec.reward_components, *((spec.success.key, CRASHED) if spec.success else ()))
        self._random = default_rng()
        self._parameters = DrawnParameters(simulator.unwrapped, _factor_draws(world, seed), _label(spec, world))
        self._parameters.set()
        self._build_changes()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode, disturbed by the world's jitter."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._parameters.set()
        self._random = default_rng() if seed is None else _stream(f"noise 1|{self._seed}|{seed}")
        jitter = self._world.jitter
        if jitter.actions:
            observation, info = self._play_random(observation, info, seed, options)
        if jitter.position or jitter.velocity:
            observation = self._disturb(observation)
        self._build_changes()
        return self._observe(observation), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:  # noqa: ANN401 - of any space
        """Play an action with the world's delay and noise."""
        observation, reward, terminated, truncated, info = self.env.step(self._act(action))
        return self._observe(observation), reward, terminated, truncated, self._judged_info(info)

    def keep_meanings(self, meanings: tuple[str, ...]) -> tuple[str, ...]:
        """Return the meanings of a vector's remaining entries; all meanings if they don't match a vector."""
        if not self._world.drop or self.env.observation_space.shape != (len(meanings),):
            return meanings
        left_out = {index for entries in self._world.drop for index in parse_entries(entries)[1] or ()}
        return tuple(meaning for index, meaning in enumerate(meanings) if index not in left_out)

    def _judged_info(self, info: dict[str, Any]) -> dict[str, Any]:
        """Return the entries of ``info`` that scoring needs; others may reveal what the world hides from agents."""
        return {name: info[name] for name in self._judged_keys if name in info}

    def _build_changes(self) -> None:
        """Build the changes of observations and actions from the simulator's spaces, which a reset may replace."""
        world, label = self._world, _label(self._spec, self._world)
        observation_space, action_space = self.env.observation_space, self.env.action_space
        changes: list[Change] = []
        if world.drop:
            keep, observation_space = _drop_entries(observation_space, world, label)
            changes.append(keep)
        if world.noise.observation:
            changes.append(_add_noise(observation_space, world.noise.observation, self._random, label))
        if world.delay.observation:
            changes.append(_delay(world.delay.observation))
        self._observe = _chain(changes)
        changes = []
        if world.delay.action:
            changes.append(_delay(world.delay.action, self._idle_action()))
        if world.noise.action:
            changes.append(_add_action_noise(action_space, world.noise.action, self._random, label))
        self._act = _chain(changes)
        self.observation_space, self.action_space = observation_space, action_space

    def _idle_action(self) -> Any:  # noqa: ANN401 - an action of any space
        space = from_gymnasium(self.env.action_space)
        try:
            return action_reader(space)(from_json(space, self._spec.idle_action))[0]
        except InvalidAction as error:
            raise UsageError(
                f"{_label(self._spec, self._world)}: delayed actions need an idle action for the first steps, and "
                f"{self._spec.name} has none: {error}."
            ) from error

    def _play_random(
        self,
        observation: Any,  # noqa: ANN401 - of any space
        info: dict[str, Any],
        seed: int | None,
        options: dict[str, Any] | None,
    ) -> tuple[Any, dict[str, Any]]:
        """Play random actions; if they end the episode, restart it without any."""
        space = from_gymnasium(self.env.action_space)
        for _ in range(int(self._random.integers(self._world.jitter.actions + 1))):
            observation, _, terminated, truncated, info = self.env.step(sample(space, self._random))
            if terminated or truncated:
                observation, info = self.env.reset(seed=seed, options=options)
                self._parameters.set()
                break
        return observation, info

    def _disturb(self, _: Any) -> Any:  # noqa: ANN401 - an observation of any space
        """Move a MuJoCo simulator's positions and velocities; return the new observation."""
        simulator: Any = self.unwrapped
        jitter = self._world.jitter
        if not hasattr(simulator, "model") or not hasattr(simulator, "_get_obs"):
            raise UsageError(
                f"{_label(self._spec, self._world)}: jitter of position and velocity works with MuJoCo's simulators. "
                f"With others use jitter = {{ actions = N }}."
            )
        mujoco, model, data = import_module("mujoco"), simulator.model, simulator.data
        moved = data.qpos + self._random.uniform(-jitter.position, jitter.position, model.nq)
        data.qvel[:] += self._random.uniform(-jitter.velocity, jitter.velocity, model.nv)
        for joint in range(model.njnt):
            if model.jnt_limited[joint] and model.jnt_type[joint] not in {FREE, BALL}:
                address = model.jnt_qposadr[joint]
                low, high = np.sort([*model.jnt_range[joint], data.qpos[address]])[[0, -1]]
                moved[address] = min(max(moved[address], low), high)
        mujoco.mj_normalizeQuat(model, moved)
        data.qpos[:] = moved
        mujoco.mj_forward(model, data)
        return simulator._get_obs()  # noqa: SLF001 - what gymnasium's own reset calls


def _label(spec: EnvironmentSpec, world: World) -> str:
    return f"The world {world.name!r} of {spec.name}"


def _stream(label: str) -> Generator:
    digest = hashlib.sha256(f"evopolicygym world {label}".encode()).digest()
    return default_rng(int.from_bytes(digest, "big"))


def _factor_draws(world: World, seed: int) -> Mapping[str, Callable[[int], Array]]:
    """Return a function for each parameter that draws a number of factors."""

    def draws(name: str, low: float, high: float) -> Callable[[int], Array]:
        return lambda count: _stream(f"drawn 1|{seed}|{name}").uniform(low, high, count)

    return {name: draws(name, *ends) for name, ends in world.drawn.items()}


def _chain(changes: list[Change]) -> Change:
    match changes:
        case []:
            return _identity
        case [change]:
            return change
    first, *rest = changes
    after = _chain(rest)
    return lambda value: after(first(value))


def _identity(value: Any) -> Any:  # noqa: ANN401 - of any space
    return value


def _drop_entries(space: "spaces.Space[Any]", world: World, label: str) -> "tuple[Change, spaces.Space[Any]]":
    """Return the change that drops entries, and the space of the rest."""
    dropped, parts = set[str](), dict[str, set[int]]()
    for entries in world.drop:
        key, indices = parse_entries(entries)
        if indices is None:
            dropped.add(key)
        else:
            parts.setdefault(key, set()).update(indices)
    if not isinstance(space, spaces.Dict):
        if dropped or parts.keys() - {""}:
            raise UsageError(f"{label}: invalid drop {world.drop}: the observation has no keys; expected 3 or 3-7.")
        return _drop_from_box(space, parts[""], label)
    if unknown := sorted((dropped | parts.keys()) - space.spaces.keys()):
        raise UsageError(f"{label}: invalid drop {unknown[0]!r}: expected keys of {', '.join(space.spaces)}.")
    changed = {key: _drop_from_box(space[key], indices, label) for key, indices in parts.items() if key not in dropped}
    left = {
        key: changed[key][1] if key in changed else part for key, part in space.spaces.items() if key not in dropped
    }
    if not left:
        raise UsageError(f"{label}: drop leaves nothing of the observation.")
    changes = {key: change for key, (change, _) in changed.items()}

    def keep(value: Mapping[str, Any]) -> dict[str, Any]:
        return {key: changes[key](value[key]) if key in changes else value[key] for key in left}

    return keep, spaces.Dict(OrderedDict(left))  # otherwise the keys would be sorted


def _drop_from_box(space: "spaces.Space[Any]", indices: set[int], label: str) -> "tuple[Change, spaces.Box]":
    if not isinstance(space, spaces.Box) or len(space.shape) != 1:
        raise UsageError(f"{label}: drop of numbered entries works with vectors, got {space}.")
    size = space.shape[0]
    if max(indices) >= size:
        raise UsageError(f"{label}: invalid drop of the entry {max(indices)}: expected 0 to {size - 1}.")
    kept = np.array([index for index in range(size) if index not in indices], dtype=np.intp)
    if not len(kept):
        raise UsageError(f"{label}: drop leaves nothing of the observation.")
    left = spaces.Box(space.low[kept], space.high[kept], dtype=space.dtype)  # type: ignore[arg-type] # a Box's own
    return lambda value: value[kept], left


def _delay(steps: int, first: Any = None) -> Change:  # noqa: ANN401 - of any space
    """Return a change to the value of ``steps`` steps ago; until then ``first``, or the first value."""
    waiting: deque[Any] = deque()

    def change(value: Any) -> Any:  # noqa: ANN401 - of any space
        kept = copy.deepcopy(value)  # some simulators reuse their arrays
        if not waiting:
            waiting.extend([kept if first is None else first] * steps)
        waiting.append(kept)
        return waiting.popleft()

    return change


def _add_noise(space: "spaces.Space[Any]", spread: Spread, random: Generator, label: str) -> Change:
    """Return a change that adds noise to each array of numbers in an observation."""
    match space:
        case spaces.Box():
            return _Gaussian(space, spread, random, label)
        case spaces.Dict():
            changes = {key: _add_noise(part, spread, random, label) for key, part in _arrays(space)}
            if changes:
                return lambda value: {key: changes.get(key, _identity)(part) for key, part in value.items()}
    raise UsageError(
        f"{label}: noise works with observations that are arrays of numbers, or a dict of them, got {space}."
    )


def _arrays(space: spaces.Dict) -> "Iterator[tuple[str, spaces.Space[Any]]]":
    return ((key, part) for key, part in space.spaces.items() if isinstance(part, spaces.Box | spaces.Dict))


def _add_action_noise(space: "spaces.Space[Any]", spread: Spread, random: Generator, label: str) -> Change:
    match space:
        case spaces.Box():
            return _Gaussian(space, spread, random, label)
        case spaces.Discrete() if spread.share:
            choices = from_gymnasium(space)
            return lambda value: sample(choices, random) if random.random() < spread.share else value
    raise UsageError(
        f"{label}: noise of actions works with arrays of numbers, and by its share with choices, got {space}."
    )


class _Gaussian:
    """Adds noise to the arrays of a Box, within its bounds."""

    __slots__ = ("_block", "_bounds", "_deviation", "_dtype", "_next", "_random", "_whole")

    def __init__(self, space: spaces.Box, spread: Spread, random: Generator, label: str) -> None:
        self._random, self._dtype = random, np.dtype(space.dtype)
        self._whole = self._dtype.kind in "iu"
        kind = np.dtype(np.float32) if self._dtype == np.float32 else np.dtype(np.float64)
        self._deviation = _deviation(space, spread, label).astype(kind)
        is_open = np.isinf(space.low).all() and np.isinf(space.high).all()
        self._bounds = None if is_open else (space.low.astype(kind), space.high.astype(kind))
        self._block, self._next = np.empty((0, *space.shape), kind), 0

    def __call__(self, value: Array) -> Array:
        """Return an array with noise."""
        if self._next == len(self._block):
            shape = max(1, BLOCK // max(1, self._deviation.size)), *self._deviation.shape
            self._block, self._next = self._random.standard_normal(shape, self._deviation.dtype), 0  # type: ignore[arg-type] # of two dtypes
            np.multiply(self._block, self._deviation, out=self._block)
        moved = value + self._block[self._next]
        self._next += 1
        if self._bounds:
            np.maximum(moved, self._bounds[0], out=moved)
            np.minimum(moved, self._bounds[1], out=moved)
        if self._whole:
            np.rint(moved, out=moved)
        noisy: Array = moved if moved.dtype == self._dtype else moved.astype(self._dtype)
        return noisy


def _deviation(space: spaces.Box, spread: Spread, label: str) -> NDArray[np.float64]:
    """Return the standard deviation of each entry."""
    if not spread.share:
        try:
            deviation: NDArray[np.float64] = np.full(space.shape, spread.absolute, np.float64)
        except ValueError as error:
            raise UsageError(
                f"{label}: invalid absolute noise: expected one number, or {space.shape} of them, got "
                f"{np.size(spread.absolute)}."
            ) from error
        return deviation
    width: NDArray[np.float64] = space.high.astype(np.float64) - space.low.astype(np.float64)
    if np.isinf(width).any():
        raise UsageError(
            f"{label}: noise by its share works with entries that have bounds; give it as absolute = NUMBER, or a list "
            f"with a number for each entry."
        )
    return width * np.float64(spread.share)


class DrawnParameters:
    """The physical parameters of a simulator that a world draws."""

    def __init__(self, simulator: Any, draws: Mapping[str, Callable[[int], Array]], label: str) -> None:  # noqa: ANN401 - has no common type
        self._simulator = simulator
        self._setters: list[Callable[[], None]] = []
        """Each sets a parameter that a reset may undo."""
        for name, draw in draws.items():
            if not self._draw(name, draw):
                raise UsageError(f"{label}: {name} can't be drawn, as its simulator has no such parameter.")
        if draws and hasattr(simulator, "model"):
            import_module("mujoco").mj_setConst(simulator.model, simulator.data)

    def set(self) -> None:
        """Set the parameters that a reset may have undone."""
        for setter in self._setters:
            setter()

    def _draw(self, name: str, draw: Callable[[int], Array]) -> bool:
        """Draw a parameter; return whether there is one."""
        if name in _IN_MODEL and hasattr(self._simulator, "model"):
            _IN_MODEL[name](self._simulator.model, draw)
            return True
        for kind in type(self._simulator).__mro__ if name == "motor_strength" else ():
            if constants := _CONSTANTS.get((kind.__module__, kind.__name__)):
                _multiply_constants(self._simulator, kind, constants, float(draw(1)[0]))
                return True
        if name in _SETTERS and (setter := _SETTERS[name](self._simulator, float(draw(1)[0]))):
            self._setters.append(setter)
            return True
        return False


def _multiply_rows(attribute: str, *others: str) -> Callable[[Any, Callable[[int], Array]], None]:
    def change(model: Any, draw: Callable[[int], Array]) -> None:  # noqa: ANN401 - MuJoCo's
        rows = getattr(model, attribute)
        factors = draw(len(rows))
        for name in (attribute, *others):
            changed = getattr(model, name)
            changed[:] *= factors.reshape(-1, *(1,) * (changed.ndim - 1))

    return change


def _multiply_friction(model: Any, draw: Callable[[int], Array]) -> None:  # noqa: ANN401 - MuJoCo's
    # One factor for all: MuJoCo takes the larger friction of two surfaces, and the ground's would hide the others'
    model.geom_friction[:] *= draw(1)[0]


def _multiply_gravity(model: Any, draw: Callable[[int], Array]) -> None:  # noqa: ANN401 - MuJoCo's
    model.opt.gravity[:] *= draw(1)[0]


_IN_MODEL = {
    "body_mass": _multiply_rows("body_mass", "body_inertia"),
    "geom_friction": _multiply_friction,
    "dof_damping": _multiply_rows("dof_damping"),
    "actuator_gear": _multiply_rows("actuator_gear"),
    "gravity": _multiply_gravity,
}
"""Parameters of MuJoCo's models, which a reset leaves as they are."""
_CONSTANTS = {
    ("gymnasium.envs.box2d.bipedal_walker", "BipedalWalker"): ("MOTORS_TORQUE",),
    ("gymnasium.envs.box2d.lunar_lander", "LunarLander"): ("MAIN_ENGINE_POWER", "SIDE_ENGINE_POWER"),
}
"""Constants of Box2D's modules that are the strength of motors, by the class that uses them in ``step``."""


def _multiply_constants(simulator: Any, kind: type, constants: tuple[str, ...], factor: float) -> None:  # noqa: ANN401 - has no common type
    """Give a simulator a ``step`` with other constants of its module; the module stays unchanged."""
    step: Any = kind.__dict__["step"]
    known = {**step.__globals__, **{name: step.__globals__[name] * factor for name in constants}}
    changed = FunctionType(step.__code__, known, step.__name__, step.__defaults__, step.__closure__)
    simulator.step = MethodType(changed, simulator)


def _box2d_gravity(simulator: Any, factor: float) -> Callable[[], None] | None:  # noqa: ANN401 - has no common type
    if not hasattr(getattr(simulator, "world", None), "gravity") or not simulator.world.gravity[1]:
        return None
    gravity = simulator.world.gravity[0] * factor, simulator.world.gravity[1] * factor
    if hasattr(simulator, "gravity"):  # a reset creates a world with it
        simulator.gravity = gravity[1]

    def change() -> None:
        simulator.world.gravity = gravity

    return change


def _box2d_wind(simulator: Any, power: float) -> Callable[[], None] | None:  # noqa: ANN401 - has no common type
    if not hasattr(simulator, "wind_power"):
        return None

    def change() -> None:
        simulator.enable_wind, simulator.wind_power = True, power

    return change


def _ego_setter(attribute: str) -> Callable[[Any, float], Callable[[], None] | None]:
    """Return a factory of setters for an action range of highway-env's vehicle, which each reset creates anew."""

    def setter(simulator: Any, factor: float) -> Callable[[], None] | None:  # noqa: ANN401 - has no common type
        if not hasattr(getattr(simulator, "action_type", None), attribute):
            return None
        low, high = getattr(simulator.action_type, attribute)

        def change() -> None:
            setattr(simulator.action_type, attribute, (low * factor, high * factor))

        return change

    return setter


def _others_setter(attribute: str) -> Callable[[Any, float], Callable[[], None] | None]:
    """Return a factory of setters for a parameter of highway-env's other drivers, which each reset creates anew."""

    def setter(simulator: Any, factor: float) -> Callable[[], None] | None:  # noqa: ANN401 - has no common type
        if not hasattr(simulator, "road") or "other_vehicles_type" not in getattr(simulator, "config", {}):
            return None

        def change() -> None:
            for vehicle in simulator.road.vehicles if simulator.road else ():
                if hasattr(type(vehicle), attribute) and vehicle is not simulator.vehicle:
                    setattr(vehicle, attribute, getattr(type(vehicle), attribute) * factor)

        return change

    return setter


_SETTERS: Mapping[str, Callable[[Any, float], Callable[[], None] | None]] = {
    "gravity": _box2d_gravity,
    "wind": _box2d_wind,
    "acceleration": _ego_setter("acceleration_range"),
    "steering": _ego_setter("steering_range"),
    "driver_acceleration": _others_setter("COMFORT_ACC_MAX"),
    "time_wanted": _others_setter("TIME_WANTED"),
    "distance_wanted": _others_setter("DISTANCE_WANTED"),
}
"""Factories of setters that are called after a reset; each returns None if the simulator has no such parameter."""
