"""Converts spaces of gymnasium, and checks values against them.

``core/spaces.py`` defines the package's spaces, their schemas and the rule for invalid actions.
"""

from collections.abc import Callable
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

_SHOWN = 80
"""Characters of a value that a message shows."""
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
            return Text(int(space.max_length), int(space.min_length), "".join(sorted(space.characters)))
        case gymnasium_spaces.Tuple():
            return Tuple(tuple(from_gymnasium(part) for part in space.spaces))
        case gymnasium_spaces.Dict():
            parts = {str(name): from_gymnasium(part) for name, part in space.spaces.items()}
            if len(parts) < len(space.spaces):
                raise UsageError(
                    f"Unsupported Dict space: expected keys that differ as texts, got {list(space.spaces)}."
                )
            return Dict(tuple(parts.items()))
        case _ if hasattr(space, "mission_func"):
            # MiniGrid's MissionSpace; MiniGrid need not be installed
            return Text(MISSION_LENGTH)
    raise UsageError(
        f"Unsupported space of type {type(space).__name__} and shape {space.shape}: expected Discrete, Box, "
        f"MultiDiscrete of one dimension, MultiBinary, Text, Tuple or Dict."
    )


Convert = Callable[[Any], Any]


def simulator_actions(space: gymnasium_spaces.Space[Any]) -> Convert | None:
    """Return what makes of an action of our space what the simulator's space draws; None if they are the same.

    An integer is of numpy's type, and keys of a Dict are the simulator's own.
    """
    match space:
        case gymnasium_spaces.Discrete():
            return np.dtype(space.dtype).type
        case gymnasium_spaces.Tuple() | gymnasium_spaces.Dict():
            return _convert_parts(space, simulator_actions, to_simulator=True)
    return None


def policy_observations(space: gymnasium_spaces.Space[Any]) -> Convert | None:
    """Return what gives the keys of Dicts in a simulator's observation our names; None if they have them."""
    if isinstance(space, gymnasium_spaces.Tuple | gymnasium_spaces.Dict):
        return _convert_parts(space, policy_observations, to_simulator=False)
    return None


def _convert_parts(
    space: gymnasium_spaces.Tuple | gymnasium_spaces.Dict,
    converter: Callable[[gymnasium_spaces.Space[Any]], Convert | None],
    *,
    to_simulator: bool,
) -> Convert | None:
    if isinstance(space, gymnasium_spaces.Tuple):
        parts = [converter(part) for part in space.spaces]
        if not any(parts):
            return None
        return lambda value: tuple(
            item if convert is None else convert(item) for convert, item in zip(parts, value, strict=True)
        )
    names = [(str(name), name) if to_simulator else (name, str(name)) for name in space.spaces]
    named = [(*pair, converter(part)) for pair, part in zip(names, space.spaces.values(), strict=True)]
    if all(taken == given and convert is None for taken, given, convert in named):
        return None
    return lambda value: {
        given: value[taken] if convert is None else convert(value[taken]) for taken, given, convert in named
    }


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


def mismatch(space: gymnasium_spaces.Space[Any], value: Any, *, bounds: bool = True) -> str:  # noqa: ANN401 - a value of any space
    """Return how an observation violates the simulator's space, in a few words; empty if the space contains it.

    Keys of a Dict are texts, as ``Environment`` gives them. Without ``bounds``, those of a Box are not checked.
    """
    match space:
        case gymnasium_spaces.Tuple():
            parts: list[tuple[str, Any, gymnasium_spaces.Space[Any]]]
            parts = [(str(index), index, part) for index, part in enumerate(space.spaces)]
            if not isinstance(value, list | tuple) or len(value) != len(parts):
                return f"expected a tuple of {len(parts)} parts, got {value!r}"
        case gymnasium_spaces.Dict():
            parts = [(str(name), str(name), part) for name, part in space.spaces.items()]
            if not isinstance(value, dict) or value.keys() != {name for name, _, _ in parts}:
                return f"expected a dict of {', '.join(name for name, _, _ in parts)}, got {value!r}"
        case _:
            return _mismatch_of_leaf(space, value, bounds=bounds)
    problems = ((name, mismatch(part, value[key], bounds=bounds)) for name, key, part in parts)
    return next((f"{name}: {problem}" for name, problem in problems if problem), "")


def _mismatch_of_leaf(space: gymnasium_spaces.Space[Any], value: Any, *, bounds: bool) -> str:  # noqa: ANN401 - anything
    array = np.asarray(value) if isinstance(space, gymnasium_spaces.Box) and np.isscalar(value) else value
    if space.contains(array):  # of a scalar, as Gymnasium warns of what isn't an array
        return ""
    match space:
        case gymnasium_spaces.Discrete():
            return f"expected an integer of {space}, got {value!r}"
        case gymnasium_spaces.Box() | gymnasium_spaces.MultiDiscrete() | gymnasium_spaces.MultiBinary():
            if not isinstance(array, np.ndarray):
                return f"expected an array, got {_article(type(value).__name__)}"
            actual, expected = (array.shape, array.dtype.name), (space.shape, np.dtype(space.dtype).name)
            if actual != expected:
                return f"expected an array of shape {expected[0]} and {expected[1]}, got {actual[0]} and {actual[1]}"
            is_outside = bounds or not isinstance(space, gymnasium_spaces.Box)
            return f"outside its space: {' '.join(str(value).split())[:_SHOWN]}" if is_outside else ""
        case _:
            return f"not in {space}: {value!r}"


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


def _article(word: str) -> str:
    return f"{'an' if word[0] in 'aeiou' else 'a'} {word}"


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
