"""Spaces of observations and actions, and the rule for invalid actions.

In JSON (``/info``, ``env_meta``, a policy's constructor) a space is a schema of plain dicts; in Python it is one of the
frozen dataclasses below.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bounds = float | tuple[float, ...]
"""One number for all elements, or one for each element in row-major order."""
MANY = 32
"""Up to this many numbers, a Python loop is faster than numpy's comparisons."""

LARGEST_BOUND = 2.0**53
"""The largest finite bound; sums of squares of such numbers fit in single precision."""


class InvalidAction(ValueError):
    """A policy returned something that is not an action of the space."""


@dataclass(frozen=True, slots=True)
class Discrete:
    """The integers ``start`` to ``start + n - 1``."""

    n: int
    start: int = 0
    labels: tuple[str, ...] = ()
    """What each value means, in order; empty where the spec doesn't say."""


SMALLEST_PICTURE = 3
"""Rows and columns from which on bytes are looked at as a picture."""


@dataclass(frozen=True, slots=True)
class Box:
    """Arrays of one shape and dtype within bounds."""

    shape: tuple[int, ...]
    dtype: str
    """A numpy dtype's name, such as ``float32`` or ``uint8``."""
    low: Bounds
    high: Bounds
    fields: tuple[str, ...] = ()
    """What each element means, in row-major order; empty where the spec doesn't say."""

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def is_picture(self) -> bool:
        """Whether its arrays are looked at as pictures: bytes of (rows, columns[, 1 or 3])."""
        match self.shape:
            case (rows, columns) | (rows, columns, 1 | 3):
                return self.dtype == "uint8" and min(rows, columns) >= SMALLEST_PICTURE
        return False

    def limits(self) -> "tuple[NDArray[np.float64], NDArray[np.float64]]":
        """Return the lower and the upper bounds as float64 arrays of the space's shape."""
        return _spread(self.low, self.shape), _spread(self.high, self.shape)


@dataclass(frozen=True, slots=True)
class MultiDiscrete:
    """Vectors of integers, the i-th in ``start[i]`` to ``start[i] + nvec[i] - 1``."""

    nvec: tuple[int, ...]
    start: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MultiBinary:
    """Arrays of zeros and ones."""

    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Text:
    """Strings of ``min_length`` to ``max_length`` characters."""

    max_length: int
    min_length: int = 0
    characters: str = ""
    """The characters that may occur, sorted; any if empty."""


@dataclass(frozen=True, slots=True)
class Tuple:
    """A fixed sequence of values, each of its own space."""

    spaces: "tuple[Space, ...]"


@dataclass(frozen=True, slots=True)
class Dict:
    """Named values, each of its own space, in a fixed order."""

    spaces: "tuple[tuple[str, Space], ...]"


@dataclass(frozen=True, slots=True)
class UnknownSpace:
    """A space that a record doesn't describe; its values are what JSON says."""


Space = Discrete | Box | MultiDiscrete | MultiBinary | Text | Tuple | Dict
RecordedSpace = Space | UnknownSpace


def to_schema(space: Space) -> dict[str, Any]:
    """Return the plain-dict form of a space: JSON types only, equal for equal spaces."""
    match space:
        case Discrete():
            schema: dict[str, Any] = {"type": "Discrete", "n": space.n, "start": space.start}
            return schema | ({"labels": list(space.labels)} if space.labels else {})
        case Box():
            bounds = {"low": _nested(space.low, space.shape), "high": _nested(space.high, space.shape)}
            schema = {"type": "Box", "shape": list(space.shape), "dtype": space.dtype, **bounds}
            return schema | ({"fields": list(space.fields)} if space.fields else {})
        case MultiDiscrete():
            return {"type": "MultiDiscrete", "nvec": list(space.nvec), "start": list(space.start)}
        case MultiBinary():
            return {"type": "MultiBinary", "shape": list(space.shape)}
        case Text():
            schema = {"type": "Text", "max_length": space.max_length}
            known = {"min_length": space.min_length, "characters": space.characters}
            return schema | {name: value for name, value in known.items() if value}
        case Tuple():
            return {"type": "Tuple", "spaces": [to_schema(part) for part in space.spaces]}
        case Dict():
            return {"type": "Dict", "spaces": {name: to_schema(part) for name, part in space.spaces}}


def from_schema(schema: Mapping[str, Any]) -> Space:
    """Return the space that a plain-dict schema describes; raise ``ValueError`` on an unknown type."""
    match schema.get("type"):
        case "Discrete":
            return Discrete(int(schema["n"]), int(schema.get("start", 0)), tuple(schema.get("labels", ())))
        case "Box":
            shape = tuple(int(side) for side in schema["shape"])
            low, high = _flat(schema["low"]), _flat(schema["high"])
            return Box(shape, str(schema["dtype"]), low, high, tuple(schema.get("fields", ())))
        case "MultiDiscrete":
            nvec = tuple(int(n) for n in schema["nvec"])
            return MultiDiscrete(nvec, tuple(int(n) for n in schema.get("start", (0,) * len(nvec))))
        case "MultiBinary":
            return MultiBinary(tuple(int(side) for side in schema["shape"]))
        case "Text":
            return Text(int(schema["max_length"]), int(schema.get("min_length", 0)), str(schema.get("characters", "")))
        case "Tuple":
            return Tuple(tuple(from_schema(part) for part in schema["spaces"]))
        case "Dict":
            return Dict(tuple((name, from_schema(part)) for name, part in schema["spaces"].items()))
        case other:
            raise ValueError(f"A space of type {other!r} is not known")


def recorded_space(schema: Mapping[str, Any]) -> RecordedSpace:
    """Return the space that a record describes; raise ``ValueError`` on an unknown type."""
    return from_schema(schema) if schema else UnknownSpace()


def bounds_of(array: "NDArray[Any]") -> Bounds:
    """Return an array of bounds as one number if all are equal, else as a flat tuple."""
    flat = [float(value) for value in np.asarray(array).ravel()]
    return flat[0] if flat and all(value == flat[0] for value in flat) else tuple(flat)


def is_bounded(space: Space) -> bool:
    """Return whether every value of a space is small enough for a simulator's arithmetic.

    False if a Box has a bound beyond ``LARGEST_BOUND``, or the space contains texts, whose characters are not limited.
    """
    match space:
        case Box():
            low, high = space.limits()
            return bool((low >= -LARGEST_BOUND).all() and (high <= LARGEST_BOUND).all())
        case Text():
            return False
        case Tuple():
            return all(is_bounded(part) for part in space.spaces)
        case Dict():
            return all(is_bounded(part) for _, part in space.spaces)
        case _:
            return True


def sample(space: Space, random: np.random.Generator) -> Any:  # noqa: ANN401 - a value of any space
    """Draw a value uniformly at random.

    An unbounded side of a Box is drawn from a standard normal. Of a Text the length is drawn, then each character; it
    is empty if its space doesn't say which characters there are.
    """
    match space:
        case Discrete():
            return int(random.integers(space.start, space.start + space.n))
        case Box():
            return _sample_box(space, random)
        case MultiDiscrete():
            start = np.asarray(space.start, dtype=np.int64)
            return random.integers(start, start + np.asarray(space.nvec, dtype=np.int64))
        case MultiBinary():
            return random.integers(0, 2, size=space.shape, dtype=np.int8)
        case Text():
            return _sample_text(space, random)
        case Tuple():
            return tuple(sample(part, random) for part in space.spaces)
        case Dict():
            return {name: sample(part, random) for name, part in space.spaces}


WIDE, SMALL = 1 << 16, 7
"""The range from which integers of a Box are no plausible observation, and the largest that is drawn instead."""


def with_small_integers(space: Space) -> Space:
    """Return a space whose integers are small where its bounds say next to nothing, such as those of a dtype.

    Positions in a table or counts are declared with such bounds, and a policy may use them as indices.
    """
    match space:
        case Box() if np.dtype(space.dtype).kind in "iu":
            low, high = _representable(space)
            wide = high - low > WIDE
            least, most = (np.where(wide, np.clip(n, low, high), own) for n, own in ((0, low), (SMALL, high)))
            return replace(space, low=tuple(map(float, least.ravel())), high=tuple(map(float, most.ravel())))
        case Tuple():
            return replace(space, spaces=tuple(map(with_small_integers, space.spaces)))
        case Dict():
            return replace(space, spaces=tuple((name, with_small_integers(part)) for name, part in space.spaces))
        case _:
            return space


def action_reader(space: Space) -> Callable[[Any], tuple[Any, bool]]:
    """Return the rule for actions of this space: a function from a raw value to ``(action, clipped)``.

    A raw value is a policy's answer after transport: an int for Discrete, a float64 array of the space's shape for Box,
    int64 arrays for MultiDiscrete and MultiBinary, a str for Text. Numbers outside a Box are clipped to its bounds.
    ``InvalidAction`` is raised for numbers that are not finite, too large for the dtype on an unbounded side, or not
    integers where the space has integers, and for values out of range. The action has the space's dtype.
    """
    match space:
        case Discrete():
            return _discrete_reader(space)
        case Box():
            return _box_reader(space)
        case MultiDiscrete():
            start = np.asarray(space.start, dtype=np.int64)
            return _integer_reader(start, start + np.asarray(space.nvec, dtype=np.int64) - 1, "int64")
        case MultiBinary():
            return _integer_reader(np.zeros(space.shape, np.int64), np.ones(space.shape, np.int64), "int8")
        case Text():
            return _text_reader(space)
        case Tuple():
            parts = [action_reader(part) for part in space.spaces]

            def read_tuple(raw: Any) -> tuple[Any, bool]:  # noqa: ANN401
                pairs = [read(value) for read, value in zip(parts, raw, strict=True)]
                return tuple(action for action, _ in pairs), any(clipped for _, clipped in pairs)

            return read_tuple
        case Dict():
            named = [(name, action_reader(part)) for name, part in space.spaces]

            def read_dict(raw: Any) -> tuple[Any, bool]:  # noqa: ANN401
                pairs = {name: read(raw[name]) for name, read in named}
                return {n: action for n, (action, _) in pairs.items()}, any(clipped for _, clipped in pairs.values())

            return read_dict


def _discrete_reader(space: Discrete) -> Callable[[Any], tuple[int, bool]]:
    start, stop = space.start, space.start + space.n

    def read(raw: int) -> tuple[int, bool]:
        if start <= raw < stop:
            return raw, False
        raise InvalidAction(f"{raw} is outside the integers {start} to {stop - 1}")

    return read


def _box_reader(space: Box) -> Callable[[Any], tuple[Any, bool]]:
    dtype = np.dtype(space.dtype)
    low, high = _representable(space)
    whole = dtype.kind in "iu"
    no_low, no_high = (np.isinf(bound) for bound in space.limits())

    def read_slowly(raw: "NDArray[np.float64]") -> tuple[Any, bool]:
        if (((raw < low) & no_low) | ((raw > high) & no_high)).any() and np.isfinite(raw).all():
            raise InvalidAction(
                f"{_brief(raw)} contains numbers that {dtype.name}, the dtype of the space, can't represent"
            )
        return _read_box_slowly(raw, low, high, dtype)

    def read(raw: "NDArray[np.float64]") -> tuple[Any, bool]:
        if ((raw >= low) & (raw <= high)).all() and not whole:  # NaN fails both comparisons
            return raw.astype(dtype), False
        return read_slowly(raw)

    pairs = set(zip(low.ravel().tolist(), high.ravel().tolist(), strict=True))
    if whole or len(space.shape) != 1 or space.size > MANY or len(pairs) != 1:
        return read
    ((least, most),) = pairs

    def read_quickly(raw: "NDArray[np.float64]") -> tuple[Any, bool]:
        for number in raw.tolist():
            if not least <= number <= most:
                return read_slowly(raw)
        return raw.astype(dtype), False

    return read_quickly


def _read_box_slowly(
    raw: "NDArray[np.float64]", low: "NDArray[np.float64]", high: "NDArray[np.float64]", dtype: "np.dtype[Any]"
) -> tuple[Any, bool]:
    if not np.isfinite(raw).all():
        raise InvalidAction(f"{_brief(raw)} is not finite")
    if dtype.kind in "iu" and not (raw == np.floor(raw)).all():
        raise InvalidAction(
            f"{_brief(raw)} contains numbers that are not integers, and the space has dtype {dtype.name}"
        )
    inside = np.clip(raw, low, high)
    return inside.astype(dtype), bool((inside != raw).any())


def _integer_reader(
    low: "NDArray[np.int64]", high: "NDArray[np.int64]", dtype: str
) -> Callable[[Any], tuple[Any, bool]]:
    def read(raw: "NDArray[np.int64]") -> tuple[Any, bool]:
        if ((raw < low) | (raw > high)).any():
            raise InvalidAction(f"{_brief(raw)} is outside {_brief(low)} to {_brief(high)}")
        return raw.astype(dtype), False

    return read


def _text_reader(space: Text) -> Callable[[Any], tuple[str, bool]]:
    known = set(space.characters)

    def read(raw: str) -> tuple[str, bool]:
        if len(raw) > space.max_length:
            raise InvalidAction(f"{len(raw)} characters are more than the {space.max_length} allowed")
        if len(raw) < space.min_length:
            raise InvalidAction(f"{len(raw)} characters are fewer than the {space.min_length} needed")
        if known and (others := set(raw) - known):
            raise InvalidAction(f"the character {min(others)!r} is none of {space.characters!r}")
        return raw, False

    return read


def _sample_text(space: Text, random: np.random.Generator) -> str:
    if not space.characters:
        return ""
    length = random.integers(space.min_length, space.max_length, endpoint=True)
    return "".join(space.characters[index] for index in random.integers(0, len(space.characters), length))


def _sample_box(space: Box, random: np.random.Generator) -> "NDArray[Any]":
    dtype = np.dtype(space.dtype)
    low, high = space.limits()
    if dtype.kind in "iu":
        low, high = _representable(space)
        return random.integers(low.astype(np.int64), high.astype(np.int64), endpoint=True).astype(dtype)
    bounded = np.isfinite(low) & np.isfinite(high)
    uniform = random.uniform(np.where(bounded, low, 0.0), np.where(bounded, high, 1.0))
    drawn = np.where(bounded, uniform, np.clip(random.standard_normal(space.shape), low, high))
    return np.asarray(drawn, dtype=dtype)


def _representable(space: Box) -> "tuple[NDArray[np.float64], NDArray[np.float64]]":
    """Return a Box's bounds, with infinite ones replaced by the largest numbers of its dtype."""
    dtype = np.dtype(space.dtype)
    known = np.iinfo(dtype) if dtype.kind in "iu" else np.finfo(dtype)
    least, most = float(known.min), float(known.max)
    if dtype.kind in "iu" and int(most) > known.max:  # the nearest float64 of a 64-bit maximum lies above it
        most = math.nextafter(most, 0.0)
    low, high = space.limits()
    return np.maximum(low, least), np.minimum(high, most)


def _spread(bounds: Bounds, shape: tuple[int, ...]) -> "NDArray[np.float64]":
    own = () if isinstance(bounds, float | int) else shape
    plain = np.asarray(bounds, dtype=np.float64).reshape(own) + 0.0  # turns -0 into 0, below which no number is drawn
    return np.broadcast_to(plain, shape)


def _nested(bounds: Bounds, shape: tuple[int, ...]) -> Any:  # noqa: ANN401 - a number, or lists of numbers to any depth
    small = math.prod(shape) <= 64  # noqa: PLR2004 - a picture's bounds as lists would be two megabytes of zeros
    if isinstance(bounds, float | int) and not small:
        return float(bounds)
    return _spread(bounds, shape).tolist()


def _flat(bounds: Any) -> Bounds:  # noqa: ANN401 - as above
    return bounds_of(np.asarray(bounds, dtype=np.float64))


def _brief(array: "NDArray[Any]") -> str:
    return np.array2string(array, threshold=8, precision=4, separator=", ")
