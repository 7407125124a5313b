"""Interfaces: bijections of a task's spaces, drawn from a key, with exact inverses.

An interface is data: a JSON document that says, for each part of a space, how its values are changed. Entries of arrays
are put into another order and multiplied by ±1, ±2, ±4 or ±8, codes are renumbered, pictures are mirrored, and their
channels are put into another order. ``core/transforms.py`` changes values and changes them back. Every change is exact:

- An order, a mirror and a table of codes only move values, or are inverted by another table.
- The sign of a binary floating-point number is a bit of its own, also of zeros, infinities and NaN.
- A product with 2^k (0 <= k <= 3) is exact, of subnormal numbers too, unless it overflows: float32 from 2^125 on,
  float64 from 2^1021 on. No factor is below 1, as those would round subnormal numbers. Of float16, and of actions,
  which are rounded to their dtype after the policy gave them, only signs are changed.
- Integers are mirrored by ``low + high - value`` in the arithmetic of their dtype, which is exact modulo its size.

Spaces are schemas here, as ``core.spaces.to_schema`` returns them.
"""

import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from evopolicygym.core.errors import UsageError
from evopolicygym.core.spaces import Space, action_reader, from_schema
from evopolicygym.core.task import EnvironmentSpec
from evopolicygym.core.transforms import (
    MIRRORED,
    SAME,
    Convert,
    Schema,
    Transform,
    bind,
    flat_order,
    invert_order,
    spread_out,
)

Interface = Mapping[str, Any]
"""An interface as data, as ``draw_interface`` returns it; empty for the standard one."""
VERSION = 1
PERMUTED, ANONYMOUS = "permuted", "anonymous"
LARGEST_EXPONENT = 3
"""Factors of observations are up to 2 to this power."""
MOST_CODES = 4096
"""Of a Discrete space with more values, none is renumbered."""
LARGEST_MATRIX = 1024
"""Elements of a floating-point matrix whose rows and columns are put into another order; a larger one is a picture."""
GRID_SIDE, GRID_CODES = 32, 16
"""A grid of bytes with no side above the first is symbolic; its lowest codes, at most so many, are renumbered."""
MOST_CHANNELS = 8
LARGEST_MIRRORED_BOUND = 2**31
LISTED = 64
"""Elements of an array whose bounds a schema always lists."""
NUMBERS = (bool, int, float, np.number, np.bool_)


@dataclass(frozen=True, slots=True)
class InterfaceDraw:
    """What an interface is drawn from. Never leaves the trusted side."""

    level: str
    """``permuted`` or ``anonymous``."""
    key: bytes


@dataclass(frozen=True, slots=True)
class BoundInterface:
    """An interface, ready to be played through."""

    document: Interface
    observation_space: Space
    """As it is shown."""
    action_space: Space
    """As it is shown."""
    show_observation: Convert
    show_action: Convert
    action_of: Convert
    """Turns a valid action of the space shown into the simulator's."""
    read_action: Callable[[Any], tuple[Any, bool]]
    """The rule for actions of the space shown, as ``core.spaces.action_reader`` returns it."""

    @classmethod
    def of(cls, interface: Interface) -> "BoundInterface":
        """Return an interface, bound."""
        observation, action = map(from_schema, shown_schemas(interface))
        return cls(
            document=interface,
            observation_space=observation,
            action_space=action,
            show_observation=observation_converter(interface),
            show_action=shown_action_converter(interface),
            action_of=action_converter(interface),
            read_action=shown_action_reader(interface),
        )


def interface_key(secret: bytes, environment: str) -> bytes:
    """Return the key of the interfaces of one environment in an experiment."""
    return hmac.digest(secret, f"evopolicygym interface 1|{environment}".encode(), "sha256")


def draw_interface(
    key: bytes, level: str, observation: Schema, action: Schema, components: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return an interface as data; both levels of a key have the same transforms of numbers.

    ``components`` are the names of the parts of the reward.
    """
    if level == ANONYMOUS and _has_text(action):
        raise UsageError(
            f"Invalid interface {level!r}: expected {PERMUTED!r} or 'standard', as the actions are texts, whose words "
            f"can't be found without their meaning."
        )
    document: dict[str, Any] = {
        "version": VERSION,
        "level": level,
        "observation": {"schema": dict(observation), "transform": _draw(key, observation, "observation", level)},
        "action": {"schema": dict(action), "transform": _draw(key, action, "action", level)},
        "reward_components": list(components),
    }
    if level == ANONYMOUS:
        order = _Draw(key, "components").order(len(components))
        document["task"] = f"task-{_digest(key, 'task')[:6]}"
        document["components"] = {name: f"part_{index}" for name, index in zip(components, order, strict=True)}
        document["info_key"] = _digest(key, "info")
    return document


def _has_text(schema: Schema) -> bool:
    """Return whether a value of a space has a text in it."""
    spaces = schema.get("spaces", ())
    parts = spaces.values() if isinstance(spaces, Mapping) else spaces
    return schema["type"] == "Text" or any(map(_has_text, parts))


def shown_schemas(interface: Interface) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the schemas of observations and actions that an agent and its policies are shown."""
    named = interface["level"] == PERMUTED
    sides = interface["observation"], interface["action"]
    observation, action = (_shown(side["transform"], side["schema"], named=named) for side in sides)
    return observation, action


def shown_info(interface: Interface, info: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a step's ``info`` shows: of an anonymous interface the numbers alone, under codes for names."""
    if interface["level"] != ANONYMOUS:
        return info
    key, parts = bytes.fromhex(interface["info_key"]), interface["components"]
    numbers = {name: value for name, value in info.items() if isinstance(value, NUMBERS)}
    return {parts.get(name) or f"info_{_digest(key, str(name))[:6]}": value for name, value in numbers.items()}


def observation_converter(interface: Interface) -> Convert:
    """Return what turns an observation of the simulator into the policy's."""
    return bind(interface["observation"]["transform"], interface["observation"]["schema"])


def action_converter(interface: Interface) -> Convert:
    """Return what turns a valid action of the policy into the simulator's."""
    return bind(interface["action"]["transform"], interface["action"]["schema"], inverse=True)


def shown_action_converter(interface: Interface) -> Convert:
    """Return what turns a valid action of the simulator into the policy's."""
    return bind(interface["action"]["transform"], interface["action"]["schema"])


def shown_action_reader(interface: Interface) -> Callable[[Any], tuple[Any, bool]]:
    """Return the rule for actions of the space shown, as ``core.spaces.action_reader`` returns it.

    What is out of bounds is clipped by the simulator's own space: a bound of 0 would else become the other zero.
    """
    side = interface["action"]
    read = action_reader(from_schema(shown_schemas(interface)[1]))
    read_standard, show = action_reader(from_schema(side["schema"])), shown_action_converter(interface)
    standard = bind(side["transform"], side["schema"], inverse=True, lenient=True)

    def read_shown(raw: Any) -> tuple[Any, bool]:  # noqa: ANN401 - a value of any space
        action, is_clipped = read(raw)
        return (show(read_standard(standard(raw))[0]), True) if is_clipped else (action, False)

    return read_shown


def shown_spec(spec: EnvironmentSpec, interface: Interface) -> EnvironmentSpec:
    """Return an environment as its agent is shown it: through an anonymous interface without names and words."""
    if not interface or interface["level"] != ANONYMOUS:
        return spec
    return replace(
        spec,
        name=interface["task"],
        id=interface["task"],
        objective="Make the mean return as large as you can. What the numbers mean is not told; find out what they do.",
        reward="Every step gives a number; the return is their sum.",
        termination="An episode may end early.",
        observation=(),
        action=(),
        reward_components=tuple(sorted(interface["components"].values())),
        success=replace(spec.success, meaning="an episode counts as a success or not") if spec.success else None,
        packages=(),
    )


class _Draw:
    """Numbers drawn from a key for one part of a space."""

    def __init__(self, key: bytes, path: str) -> None:
        self._key, self._path, self._count = key, path, 0

    def below(self, n: int) -> int:
        """Return an integer from 0 to n - 1; no bias that could be measured, as n is small against 2^256."""
        self._count += 1
        digest = hmac.digest(self._key, f"draw 1|{self._path}|{self._count}".encode(), "sha256")
        return int.from_bytes(digest, "big") % n

    def order(self, n: int) -> list[int]:
        """Return the integers from 0 to n - 1 in a drawn order."""
        order = list(range(n))
        for last in range(n - 1, 0, -1):
            other = self.below(last + 1)
            order[last], order[other] = order[other], order[last]
        return order


def _digest(key: bytes, label: str) -> str:
    return hmac.digest(key, f"name 1|{label}".encode(), "sha256").hex()


def _draw(key: bytes, schema: Schema, path: str, level: str) -> dict[str, Any]:
    draw = _Draw(key, path)
    match schema["type"]:
        case "Discrete":
            return {"codes": draw.order(schema["n"])} if schema["n"] <= MOST_CODES else {}
        case "MultiDiscrete":
            nvec = schema["nvec"]
            codes = [draw.order(n) if n <= MOST_CODES else list(range(n)) for n in nvec]
            return {"order": draw.order(len(nvec)), "codes": codes}
        case "MultiBinary":
            size = prod(schema["shape"])
            return {"order": draw.order(size), "turned": [draw.below(2) for _ in range(size)]}
        case "Box":
            return _draw_box(draw, schema, is_action=path.startswith("action"))
        case "Tuple":
            parts = [_draw(key, part, f"{path}.{index}", level) for index, part in enumerate(schema["spaces"])]
            return {"order": draw.order(len(parts)), "parts": parts}
        case "Dict":
            spaces = schema["spaces"]
            names = list(spaces)
            if level == ANONYMOUS:
                names = [f"x{index}" for index in draw.order(len(spaces))]
            named = {name: _draw(key, part, f"{path}.{name}", level) for name, part in spaces.items()}
            return {"names": dict(zip(spaces, names, strict=True)), "parts": named}
        case _:
            return {"words": _digest(key, f"words|{path}")} if level == ANONYMOUS else {}


def _draw_box(draw: _Draw, schema: Schema, *, is_action: bool) -> dict[str, Any]:
    shape, dtype = tuple(schema["shape"]), np.dtype(schema["dtype"])
    is_float, last = dtype.kind == "f", (shape or (1,))[-1]
    if len(shape) <= 1 or (is_float and prod(shape) <= LARGEST_MATRIX):
        transform: dict[str, Any] = {"axes": [draw.order(side) for side in shape]}
        if is_float:
            exponents = 1 if is_action or dtype.itemsize < 4 else LARGEST_EXPONENT + 1  # noqa: PLR2004 - float16
            transform["factors"] = [(1 - 2 * draw.below(2)) << draw.below(exponents) for _ in range(last)]
        else:
            low, high = (bound.take(flat_order(transform, shape)) for bound in _bounds(schema))
            small = np.maximum(np.abs(low), np.abs(high)) < LARGEST_MIRRORED_BOUND
            turned = [bool(draw.below(2)) and bool(small[index]) for index in range(last)]
            transform["factors"] = [-1 if turn else 1 for turn in turned]
            ends = zip(turned, low.tolist(), high.tolist(), strict=True)
            transform["offsets"] = [int(least + most) if turn else 0 for turn, least, most in ends]
        return transform
    channels = _channel_axis(shape)
    axes: list[Any] = [
        draw.order(side) if axis == channels else (SAME, MIRRORED)[draw.below(2)] for axis, side in enumerate(shape)
    ]
    transform = {"axes": axes}
    low, high = _bounds(schema)
    sides = [side for axis, side in enumerate(shape) if axis != channels]
    is_grid = dtype == np.uint8 and not is_action and max(sides) <= GRID_SIDE
    if is_grid and (low == low[0]).all() and (high == high[0]).all():
        tables = last if channels == len(shape) - 1 else 1
        least, count = int(low[0]), min(GRID_CODES, int(high[0] - low[0]) + 1)
        transform["codes"] = [[least + code for code in draw.order(count)] for _ in range(tables)]
        transform["first_code"] = least
    return transform


def _channel_axis(shape: tuple[int, ...]) -> int | None:
    """Return the axis of a picture's channels: its last or its first, where that is small and smaller than others."""
    if len(shape) > 2:  # noqa: PLR2004 - rows and columns
        for axis in (len(shape) - 1, 0):
            if shape[axis] <= MOST_CHANNELS and shape[axis] < min(shape[:axis] + shape[axis + 1 :]):
                return axis
    return None


def _bounds(schema: Schema) -> "tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]":
    """Return the flat bounds of a Box."""
    shape = tuple(schema["shape"])
    low, high = (np.broadcast_to(np.asarray(schema[end], np.float64), shape).ravel() for end in ("low", "high"))
    return low, high


def _shown(transform: Transform, schema: Schema, *, named: bool) -> dict[str, Any]:
    """Return the schema of changed values; with the meanings of entries only where they are ``named``."""
    shown = {name: value for name, value in schema.items() if name not in {"labels", "fields"}}
    match schema["type"]:
        case "Discrete":
            if named and "labels" in schema:
                codes = transform.get("codes") or range(schema["n"])
                shown["labels"] = [schema["labels"][index] for index in invert_order(codes)]
        case "MultiDiscrete":
            for name in ("nvec", "start"):
                if name in schema:
                    shown[name] = [schema[name][index] for index in transform["order"]]
        case "Box":
            shown |= _shown_box(transform, schema, named=named)
        case "Tuple":
            parts = zip(transform["parts"], schema["spaces"], strict=True)
            changed = [_shown(part, space, named=named) for part, space in parts]
            shown["spaces"] = [changed[index] for index in transform["order"]]
        case "Dict":
            names = transform["names"]
            order = schema["spaces"] if named else sorted(schema["spaces"], key=lambda name: int(names[name][1:]))
            shown["spaces"] = {
                names[name]: _shown(transform["parts"][name], schema["spaces"][name], named=named) for name in order
            }
    return shown


def _shown_box(transform: Transform, schema: Schema, *, named: bool) -> dict[str, Any]:
    shape, dtype = tuple(schema["shape"]), np.dtype(schema["dtype"])
    order = flat_order(transform, shape)
    factors = spread_out(transform.get("factors", [1]), shape, np.float64)
    offsets = spread_out(transform.get("offsets", [0]), shape, np.float64)
    low, high = (bound.take(order) * factors + offsets for bound in _bounds(schema))
    low, high = np.minimum(low, high) + 0.0, np.maximum(low, high) + 0.0
    if dtype.kind == "f":
        most = float(np.finfo(dtype).max)
        low, high = np.where(low < -most, -np.inf, low), np.where(high > most, np.inf, high)
    shown: dict[str, Any] = {}
    for name, bound in (("low", low), ("high", high)):
        is_short = bound.size > LISTED and bool((bound == bound[0]).all())
        shown[name] = float(bound[0]) if is_short else bound.reshape(shape).tolist()
    if named and "fields" in schema:
        numbers = zip(order.tolist(), factors.tolist(), offsets.tolist(), strict=True)
        shown["fields"] = [rescaled(schema["fields"][index], factor, offset) for index, factor, offset in numbers]
    return shown


def rescaled(meaning: str, factor: float, offset: float = 0.0) -> str:
    """Return what an entry means that is a standard entry times a factor, plus an offset."""
    if offset or (factor == -1 and not offset):
        return f"{offset:g} - ({meaning})" if offset else f"-({meaning})"
    return meaning if factor == 1 else f"{factor:g} * ({meaning})"
