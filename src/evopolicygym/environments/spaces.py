"""Converts spaces of gymnasium, and checks values against them.

``core/spaces.py`` defines the package's spaces, their schemas and the rule for invalid actions.
"""

from typing import Any

import numpy as np
from gymnasium import spaces as gymnasium_spaces

from evopolicygym.core.errors import UsageError
from evopolicygym.core.spaces import (
    Box,
    Dict,
    Discrete,
    InvalidAction,
    MultiBinary,
    MultiDiscrete,
    Space,
    Text,
    Tuple,
    bounds_of,
)

MISSION_LENGTH = 256
"""Most characters of a MiniGrid mission, which its space doesn't declare. The longest have about 130."""


def from_gymnasium(
    space: gymnasium_spaces.Space[Any], fields: tuple[str, ...] = (), labels: tuple[str, ...] = ()
) -> Space:
    """Return the ``core.spaces`` form of a gymnasium space.

    ``fields`` are attached to a flat Box of as many elements, ``labels`` to a Discrete of as many values; otherwise
    they are ignored. Raises ``UsageError`` if the space is not supported.
    """
    match space:
        case gymnasium_spaces.Discrete():
            return _discrete(space, labels)
        case gymnasium_spaces.Box():
            return _box(space, fields)
        case gymnasium_spaces.MultiDiscrete() if space.nvec.ndim == 1:
            return MultiDiscrete(tuple(space.nvec.tolist()), tuple(space.start.tolist()))
        case gymnasium_spaces.MultiBinary():
            return MultiBinary(tuple(int(side) for side in space.shape))
        case gymnasium_spaces.Text():
            return Text(int(space.max_length))
        case gymnasium_spaces.Tuple():
            return Tuple(tuple(from_gymnasium(part) for part in space.spaces))
        case gymnasium_spaces.Dict():
            return Dict(tuple((str(name), from_gymnasium(part)) for name, part in space.spaces.items()))
        case _ if hasattr(space, "mission_func"):
            # MiniGrid's MissionSpace; MiniGrid need not be installed
            return Text(MISSION_LENGTH)
    raise UsageError(
        f"Unsupported space of type {type(space).__name__} and shape {space.shape}: expected Discrete, Box, "
        f"MultiDiscrete of one dimension, MultiBinary, Text, Tuple or Dict."
    )


def from_json(space: Space, value: Any) -> Any:  # noqa: ANN401 - a value of any space
    """Return the value of a space for a JSON value, as ``core.spaces.action_reader`` takes it.

    Raises ``InvalidAction`` if its type, shape or names are wrong; the reader checks ranges.
    """
    match space:
        case Discrete():
            return _integer(value)
        case Box():
            return _array(value, space.shape, "float64")
        case MultiDiscrete():
            return _array(value, (len(space.nvec),), "int64")
        case MultiBinary():
            return _array(value, space.shape, "int64")
        case Text():
            return _text(value)
        case Tuple():
            return tuple(from_json(part, item) for part, item in zip(space.spaces, _items(space, value), strict=True))
        case Dict():
            items = _items(space, value)
            return {name: from_json(part, item) for (name, part), item in zip(space.spaces, items, strict=True)}


def mismatch(space: Space, value: Any) -> str:  # noqa: ANN401 - a value of any space
    """Return how a value violates its space, in a few words; empty if it doesn't.

    Types, dtypes, shapes and names are checked; bounds of a Box are not, because simulators exceed them.
    """
    match space:
        case Discrete():
            return _mismatch_of_integer(space, value)
        case Box():
            return _mismatch_of_array(value, space.shape, space.dtype)
        case MultiDiscrete():
            return _mismatch_of_array(value, (len(space.nvec),), "int64")
        case MultiBinary():
            return _mismatch_of_array(value, space.shape, "int8")
        case Text():
            fits = isinstance(value, str) and len(value) <= space.max_length
            return "" if fits else f"expected a text of at most {space.max_length} characters, got {value!r}"
        case Tuple() | Dict():
            return _mismatch_of_parts(space, value)


def _mismatch_of_integer(space: Discrete, value: Any) -> str:  # noqa: ANN401 - anything
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        return f"expected an int, got {value!r}"
    if not space.start <= value < space.start + space.n:
        return f"{value} is outside {space.start} to {space.start + space.n - 1}"
    return ""


def _mismatch_of_array(value: Any, shape: tuple[int, ...], dtype: str) -> str:  # noqa: ANN401 - anything
    if not isinstance(value, np.ndarray):
        return f"expected an array, got a {type(value).__name__}"
    if (value.shape, value.dtype.name) != (shape, dtype):
        return f"expected an array of shape {shape} and {dtype}, got {value.shape} and {value.dtype.name}"
    return ""


def _mismatch_of_parts(space: Tuple | Dict, value: Any) -> str:  # noqa: ANN401 - anything
    try:
        items = _items(space, value)
    except InvalidAction as error:
        return str(error)
    parts = space.spaces if isinstance(space, Dict) else [(str(place), part) for place, part in enumerate(space.spaces)]
    problems = (
        f"{name}: {problem}"
        for (name, part), item in zip(parts, items, strict=True)
        if (problem := mismatch(part, item))
    )
    return next(problems, "")


def _discrete(space: "gymnasium_spaces.Discrete[Any]", labels: tuple[str, ...]) -> Discrete:
    n = int(space.n)
    return Discrete(n, int(space.start), labels if len(labels) == n else ())


def _box(space: gymnasium_spaces.Box, fields: tuple[str, ...]) -> Box:
    shape = tuple(int(side) for side in space.shape)
    return Box(
        shape,
        np.dtype(space.dtype).name,
        bounds_of(space.low),
        bounds_of(space.high),
        fields if shape == (len(fields),) else (),
    )


def _integer(value: Any) -> int:  # noqa: ANN401 - JSON
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidAction(f"expected an int, got {value!r}")
    return value


def _text(value: Any) -> str:  # noqa: ANN401 - JSON
    if not isinstance(value, str):
        raise InvalidAction(f"expected a text, got {value!r}")
    return value


def _array(value: Any, shape: tuple[int, ...], dtype: str) -> Any:  # noqa: ANN401 - JSON to an array
    try:
        array = np.asarray(value, dtype=dtype)
    except (TypeError, ValueError) as error:
        raise InvalidAction(f"expected an array of numbers, got {value!r}") from error
    if array.shape != shape:
        raise InvalidAction(f"expected shape {shape}, got {array.shape}: {value!r}")
    return array


def _items(space: Tuple | Dict, value: Any) -> list[Any]:  # noqa: ANN401 - JSON
    if isinstance(space, Tuple) and isinstance(value, list | tuple) and len(value) == len(space.spaces):
        return list(value)
    if isinstance(space, Dict) and isinstance(value, dict) and value.keys() == dict(space.spaces).keys():
        return [value[name] for name, _ in space.spaces]
    raise InvalidAction(f"expected the parts of the space, got {value!r}")
