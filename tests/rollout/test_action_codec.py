"""Which values are which actions: the protocol's rules for answers of ``act``, beside those of the paper's release."""

import math
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
HALF_BOUNDED = Box((1,), "float32", -math.inf, 1.0)
SWITCHES, DIALS, SHIFTED = MultiBinary((2,)), MultiDiscrete((3, 4), (0, 0)), MultiDiscrete((3, 4), (1, -1))
PAIR, NAMED = TupleSpace((THREE, ONE)), Dict((("go", THREE), ("aim", ONE)))


class One:
    """What is no number, and stands for one where an index is due."""

    def __index__(self) -> int:
        return 1

    def __repr__(self) -> str:
        return "One()"


READ = [
    *((THREE, value, value) for value in (0, 1, 2)),
    *((THREE, value, 1) for value in (1.0, np.int64(1), np.uint8(1), np.float32(1.0), np.float64(1), One())),
    *((THREE, value, 1) for value in (np.array(1), np.array(1.0))),
    *((FROM_MINUS_ONE, value, -1) for value in (-1, -1.0)),
    *((ONE, value, [0.5]) for value in (0.5, [0.5], (0.5,), np.float32(0.5), np.array(0.5), np.array([0.5]))),
    *((ONE, value, [1.0]) for value in (1, 7.0, 1e300)),
    *((TWO, value, [0.5, -1.0]) for value in ([0.5, -1], (0.5, -1.0), np.array([0.5, -1.0]), [np.array(0.5), -9.0])),
    (TWO, [0.5, True], [0.5, 1.0]),
    *((SQUARE, value, [[0.0, 0.5], [1.0, -1.0]]) for value in ([[0, 0.5], [1, -1]], ((0, 0.5), (1, -1)))),
    *((NUMBER, value, min(value, 1.0)) for value in (0.5, 7)),
    *((BYTES, value, [3, 255]) for value in ([3, 255], [3.0, 255.0])),
    *((HALF_BOUNDED, value, [min(value, 1.0)]) for value in (-5.0, 7.0)),
    *((SWITCHES, value, [0, 1]) for value in ([0, 1], [0.0, 1.0], np.array([0, 1], np.int8))),
    *((DIALS, value, [2, 3]) for value in ([2, 3], (2.0, 3.0), np.array([2, 3], np.uint8))),
    (SHIFTED, [3, -1], [3, -1]),
    *((PAIR, value, (2, [0.5])) for value in ((2, [0.5]), [2.0, 0.5])),
    (NAMED, {"aim": 0.5, "go": 2.0}, {"go": 2, "aim": [0.5]}),
]
"""A space, what a policy returns, and the action that it is, here and for the release."""
READ_HERE = [(BYTES, [3, 300], [3, 255]), (BYTES, [3.0, -1.0], [3, 0])]
"""What is clipped here as any number is, and ends a rollout of the release."""
TAKEN_BY_THE_RELEASE = [
    *((THREE, value, 0) for value in (0.5, -0.5, False)),
    *((THREE, value, 1) for value in (1.9, True, np.True_, "1", b"1")),
    *((ONE, value, [1.0]) for value in (True, [True])),
    *((ONE, value, [0.5]) for value in ("0.5", ["0.5"])),
    *((TWO, value, [0.5, 0.5]) for value in (0.5, [0.5])),
    (TWO, [0.5, "1"], [0.5, 1.0]),
    (TWO, [False, True], [0.0, 1.0]),
    (SQUARE, 0.5, [[0.5, 0.5], [0.5, 0.5]]),
    (SQUARE, [0, 0.5], [[0.0, 0.5], [0.0, 0.5]]),
    (BYTES, [0.5, 1], [0, 1]),
    (BYTES, 7, [7, 7]),
    *((SWITCHES, value, [0, 1]) for value in ([0.5, 1], [False, True])),
    *((SWITCHES, value, [1, 1]) for value in (1, [1], "01")),
    *((DIALS, value, [0, 1]) for value in ([0.5, 1.0], [False, True], ["0", "1"])),
    *((DIALS, value, [1, 1]) for value in (1, [1])),
    (NAMED, {"go": 2, "aim": 0.5, "more": 1}, {"go": 2, "aim": [0.5]}),
]
"""A space, what is no action of it here, and the action that the release plays instead without a word."""
REPAIRED_BY_THE_RELEASE = [
    *((THREE, value, 2) for value in (3, 3.0, 1e30)),
    *((THREE, value, 0) for value in (-1, math.nan, None, "1.0", [1], (1,), np.array([1]), np.array([1, 2]), 1j)),
    *((THREE, value, 0) for value in ([], {})),
    (FROM_MINUS_ONE, 2, 1),
    *((FROM_MINUS_ONE, value, -1) for value in (-2, None)),
    *((ONE, value, [0.0]) for value in ("half", [[0.5]], [0.5, 0.5], [], {"a": 0.5}, 1j)),
    (ONE, math.inf, [1.0]),
    (ONE, [-math.inf], [-1.0]),
    *((TWO, value, [0.0, 0.0]) for value in ([[0.5, 0.5]], [[0.5], [0.5]], [0.5, -1, 0], [1j, 0], "ab")),
    *((SQUARE, value, [[0.0, 0.0], [0.0, 0.0]]) for value in ([0, 0.5, 1, -1], [[0, 0.5], [1]])),
    (NUMBER, [0.5], 0.0),
    (BYTES, [math.nan, 1], [0, 0]),
    (SWITCHES, [0, 2], [0, 1]),
    *((SWITCHES, value, [0, 0]) for value in ([0, -1], [0, 1, 0], None, [math.nan, 1])),
    (DIALS, [3, 0], [2, 0]),
    *((DIALS, value, [0, 0]) for value in ([-1, 0], [math.nan, 0.0], [0, 0, 0], None)),
    (SHIFTED, [0, -1], [1, -1]),
    (SHIFTED, [4, 3], [3, 2]),
    *((PAIR, value, (2, [0.5])) for value in ((2, [0.5], 1), (3, 0.5))),
    (PAIR, (None, 0.5), (0, [0.5])),
    (NAMED, {"go": 3, "aim": 0.5}, {"go": 2, "aim": [0.5]}),
]
"""As above, what the release plays instead and marks as invalid."""
NOT_READ = [
    (THREE, math.inf),
    *((ONE, value) for value in (math.nan, None)),
    *((TWO, value) for value in ([0.5, math.nan], [0.5, None], None)),
    *((HALF_BOUNDED, value) for value in (-1e300, -math.inf)),
    (DIALS, [1e30, 0.0]),
    *((PAIR, value) for value in ((2,), {"a": 2}, 2, None, np.array([2.0, 0.5]))),
    *((NAMED, value) for value in ({"go": 2}, (2, 0.5), None)),
]
"""A space, and what is no action of it; the release fails on it or plays a number that is none."""


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


@pytest.mark.parametrize(("space", "value", "action"), [*READ, *READ_HERE], ids=str)
def test_what_is_an_action(space: Space, value: Any, action: Any) -> None:
    """Integers, floats without a fraction, single numbers and nested lists are read as the space has them."""
    assert action == plain(read(space, value))


@pytest.mark.parametrize(("space", "value"), NOT_READ, ids=str)
def test_what_is_no_action(space: Space, value: Any) -> None:
    """Another shape, what is missing, not finite or too large for the dtype is refused."""
    with pytest.raises((layout.Unreadable, InvalidAction)):
        read(space, value)


@pytest.mark.parametrize(("space", "value", "action"), [*TAKEN_BY_THE_RELEASE, *REPAIRED_BY_THE_RELEASE], ids=str)
def test_what_the_release_makes_an_action_of(space: Space, value: Any, action: Any) -> None:
    """What the release cuts, spreads, converts or repairs until it is an action is refused here."""
    with pytest.raises((layout.Unreadable, InvalidAction)):
        read(space, value)

    assert action == plain(read(space, action))


def test_an_observation_is_read_strictly() -> None:
    """A simulator that gives a float where its space says an integer, or a number for an array, is at fault."""
    for space, value in ((THREE, 1.0), (ONE, 0.5), (DIALS, [1.0, 2.0])):
        schema = to_schema(space)
        with pytest.raises(layout.Unreadable):
            layout.bind(schema, bytearray(layout.size(schema, wide=False)), wide=False).write(value)
