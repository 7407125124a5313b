"""Which values are which actions: the protocol's rules for answers of ``act``, as a table."""

from typing import Any

import numpy as np
import pytest

from evopolicygym.core.spaces import (
    Box,
    Dict,
    Discrete,
    InvalidAction,
    MultiBinary,
    MultiDiscrete,
    Space,
    action_reader,
    to_schema,
)
from evopolicygym.core.spaces import Tuple as TupleSpace
from evopolicygym.rollout.guest import layout

THREE, FROM_MINUS_ONE = Discrete(3), Discrete(3, start=-1)
ONE, TWO = Box((1,), "float32", -1.0, 1.0), Box((2,), "float32", -1.0, 1.0)
SQUARE, NUMBER, BYTES = Box((2, 2), "float64", -1.0, 1.0), Box((), "float64", -1.0, 1.0), Box((2,), "uint8", 0.0, 255.0)
SWITCHES, DIALS = MultiBinary((2,)), MultiDiscrete((3, 4), (0, 0))
PAIR, NAMED = TupleSpace((THREE, ONE)), Dict((("go", THREE), ("aim", ONE)))
READ = [
    *((THREE, value, 1) for value in (1, 1.0, np.int64(1), np.uint8(1), np.float32(1.0), np.float64(1), np.array(1))),
    (FROM_MINUS_ONE, -1.0, -1),
    *((ONE, value, [0.5]) for value in (0.5, [0.5], (0.5,), np.float32(0.5), np.array(0.5), np.array([0.5]))),
    (ONE, 1, [1.0]),
    (ONE, 7.0, [1.0]),
    *((TWO, value, [0.5, -1.0]) for value in ([0.5, -1], (0.5, -1.0), np.array([0.5, -1.0]), [np.array(0.5), -9.0])),
    *((SQUARE, value, [[0.0, 0.5], [1.0, -1.0]]) for value in ([[0, 0.5], [1, -1]], ((0, 0.5), (1, -1)))),
    (NUMBER, 0.5, 0.5),
    *((BYTES, value, [3, 255]) for value in ([3, 255], [3.0, 300.0])),
    *((SWITCHES, value, [0, 1]) for value in ([0, 1], [0.0, 1.0], np.array([0, 1], np.int8))),
    *((DIALS, value, [2, 3]) for value in ([2, 3], (2.0, 3.0), np.array([2, 3], np.uint8))),
    *((PAIR, value, (2, [0.5])) for value in ((2, [0.5]), [2.0, 0.5])),
    (NAMED, {"aim": 0.5, "go": 2.0}, {"go": 2, "aim": [0.5]}),
]
"""A space, what a policy returns, and the action that it is."""
NOT_READ = [
    *(
        (THREE, value)
        for value in (3, -1, 0.5, 3.0, 1e30, np.nan, np.inf, True, np.True_, None, "1", [1], np.array([1]))
    ),
    *((ONE, value) for value in (np.nan, np.inf, True, None, "0.5", [[0.5]], [0.5, 0.5], [], [True])),
    *((TWO, value) for value in (0.5, [0.5], [[0.5, 0.5]], [0.5, np.nan], [0.5, "1"], [1j, 0])),
    *((SQUARE, value) for value in (0.5, [0, 0.5, 1, -1], [[0, 0.5], [1]])),
    *((BYTES, value) for value in ([0.5, 1], [np.nan, 1])),
    *((SWITCHES, value) for value in ([0, 2], [0.5, 1], 1, [True, False])),
    *((DIALS, value) for value in ([3, 0], [0.5, 1.0], [1e30, 0.0], [np.nan, 0.0], [-1, 0])),
    *((PAIR, value) for value in ((2,), (2, [0.5], 1), {"a": 2}, 2)),
    *((NAMED, value) for value in ({"go": 2}, {"go": 2, "aim": 0.5, "more": 1}, (2, 0.5))),
]
"""A space, and what is no action of it."""


def read(space: Space, value: Any) -> Any:
    """Return the action that a policy's answer is, on its way through a frame, as the environment is given it."""
    schema = to_schema(space)
    bound = layout.bind(schema, bytearray(layout.size(schema, wide=True)), wide=True)
    bound.write(value)
    return action_reader(space)(bound.read())[0]


def plain(action: Any) -> Any:
    """Return an action as plain numbers, lists, tuples and dicts."""
    match action:
        case tuple():
            return tuple(plain(part) for part in action)
        case dict():
            return {name: plain(part) for name, part in action.items()}
        case _:
            return action.tolist() if isinstance(action, np.ndarray | np.generic) else action


@pytest.mark.parametrize(("space", "value", "action"), READ, ids=str)
def test_what_is_an_action(space: Space, value: Any, action: Any) -> None:
    """Integers, floats without a fraction, single numbers and nested lists are read as the space has them."""
    assert action == plain(read(space, value))


@pytest.mark.parametrize(("space", "value"), NOT_READ, ids=str)
def test_what_is_no_action(space: Space, value: Any) -> None:
    """Another shape, fractions and truth values for integers, what is not finite or out of range are refused."""
    with pytest.raises((layout.Unreadable, InvalidAction)):
        read(space, value)


def test_an_observation_is_read_strictly() -> None:
    """A simulator that gives a float where its space says an integer, or a number for an array, is at fault."""
    for space, value in ((THREE, 1.0), (ONE, 0.5), (DIALS, [1.0, 2.0])):
        schema = to_schema(space)
        with pytest.raises(layout.Unreadable):
            layout.bind(schema, bytearray(layout.size(schema, wide=False)), wide=False).write(value)
