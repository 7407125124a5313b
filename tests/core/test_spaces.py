"""Spaces: schemas round-trip, whatever is sampled is an action, and one rule reads all actions."""

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from drawn_spaces import boxes, spaces, transported
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
    action_reader,
    from_schema,
    sample,
    to_schema,
    with_small_integers,
)
from evopolicygym.core.strict_json import dumps


def same(one: Any, other: Any) -> bool:
    match one:
        case dict():
            return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
        case tuple():
            return len(one) == len(other) and all(map(same, one, other))
        case np.ndarray():
            return one.dtype == other.dtype and np.array_equal(one, other)
        case _:
            return bool(one == other)


@given(spaces)
def test_schemas_round_trip(space: Space) -> None:
    """A space survives its schema."""
    assert space == from_schema(to_schema(space))


@given(spaces)
def test_schemas_round_trip_through_json(space: Space) -> None:
    """A space survives its schema's JSON, infinite bounds included."""
    assert space == from_schema(json.loads(dumps(to_schema(space))))


@given(spaces, some.integers(0, 2**32 - 1))
def test_what_is_sampled_is_an_action(space: Space, seed: int) -> None:
    """Every sample is read as it is, unclipped, in the space's own dtype."""
    drawn = sample(space, np.random.default_rng(seed))
    action, clipped = action_reader(space)(transported(space, drawn))

    assert not clipped
    assert same(drawn, action)


@given(spaces, some.integers(0, 2**32 - 1))
def test_samples_follow_their_seed(space: Space, seed: int) -> None:
    """The same seed draws the same value: the anchor plays a case the same way each time."""
    first, second = (sample(space, np.random.default_rng(seed)) for _ in range(2))

    assert same(first, second)


@given(spaces, some.integers(0, 2**32 - 1))
def test_what_a_check_shows_lies_in_the_space(space: Space, seed: int) -> None:
    """Small integers are drawn from the same space, and all else as before."""
    drawn = sample(with_small_integers(space), np.random.default_rng(seed))
    action, clipped = action_reader(space)(transported(space, drawn))

    assert not clipped
    assert same(drawn, action)


def test_integers_without_bounds_are_small_in_a_check() -> None:
    """A policy may use them as indices; bounds that say something are kept."""
    tables = Dict((("table", Box((3,), "int32", -(2.0**31), 2.0**31 - 1)), ("known", Box((2,), "int64", 300, 301))))
    drawn = [sample(with_small_integers(tables), np.random.default_rng(seed)) for seed in range(50)]

    assert {int(number) for one in drawn for number in one["table"]} == set(range(8))
    assert {int(number) for one in drawn for number in one["known"]} == {300, 301}


@given(boxes(), some.data())
def test_numbers_outside_a_box_are_clipped(space: Box, data: some.DataObject) -> None:
    """Whatever finite whole numbers come, the action lies in the box, and it says when it was clipped."""
    values = data.draw(some.lists(some.integers(-(10**7), 10**7), min_size=space.size, max_size=space.size))
    raw = np.array(values, dtype=np.float64).reshape(space.shape)
    low, high = space.limits()
    action, clipped = action_reader(space)(raw)

    assert clipped == bool(((raw < low) | (raw > high)).any())
    assert np.array_equal(np.clip(raw, low, high).astype(space.dtype), action)
    assert np.dtype(space.dtype) == action.dtype


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("shape", [(2,), (3, 4)])
@pytest.mark.parametrize("edge", [1.0, math.inf])
def test_what_is_not_finite_is_refused(bad: float, shape: tuple[int, ...], edge: float) -> None:
    """NaN and infinities are no action, even where the box has no bounds."""
    raw = np.zeros(shape)
    raw.flat[-1] = bad

    with pytest.raises(InvalidAction, match="not finite"):
        action_reader(Box(shape, "float32", -edge, edge))(raw)


@pytest.mark.parametrize(
    ("space", "raw"),
    [
        (Discrete(3), 3),
        (Discrete(3), -1),
        (Discrete(3, 5), 4),
        (MultiDiscrete((2, 3), (0, 1)), np.array([2, 1])),
        (MultiDiscrete((2, 3), (0, 1)), np.array([0, 0])),
        (MultiBinary((2,)), np.array([0, 2])),
        (Text(3), "four"),
        (Box((2,), "uint8", 0.0, 255.0), np.array([0.5, 1.0])),
        (Box((2,), "int64", 0.0, 255.0), np.array([math.nan, 1.0])),
        (Tuple((Discrete(2), Discrete(2))), (0, 2)),
        (Dict((("a", Discrete(2)),)), {"a": 2}),
    ],
)
def test_what_is_out_of_range_is_refused(space: Space, raw: Any) -> None:
    """What has no nearest value, or should be whole and isn't, is no action."""
    with pytest.raises(InvalidAction):
        action_reader(space)(raw)


@pytest.mark.parametrize(
    ("dtype", "ends"),
    [
        ("float32", (float(np.finfo("float32").min), float(np.finfo("float32").max))),
        ("int64", (-(2.0**63), math.nextafter(2.0**63, 0.0))),
        ("uint8", (0.0, 255.0)),
    ],
)
@pytest.mark.parametrize("end", [0, 1])
def test_an_unbounded_box_ends_with_its_dtype(dtype: str, ends: tuple[float, float], end: int) -> None:
    """The largest number that the space's own dtype holds passes as it is, the smallest too; others are no action."""
    read = action_reader(Box((1,), dtype, -math.inf, math.inf))
    action, clipped = read(np.array([ends[end]]))

    assert (action.tolist(), clipped) == ([ends[end]], False)
    with pytest.raises(InvalidAction, match=f"that {dtype}, the dtype of the space, can.t represent"):
        read(np.array([(-1e300, 1e300)[end]]))


def test_a_clipped_part_marks_the_whole() -> None:
    """A composite says clipped where any part was."""
    space = Dict((("a", Discrete(2)), ("b", Tuple((Box((1,), "float32", -1.0, 1.0),)))))
    action, clipped = action_reader(space)({"a": 1, "b": (np.array([3.0]),)})

    assert clipped
    assert action["b"][0].tolist() == [1.0]


@pytest.mark.parametrize("schema", [{}, {"type": "Graph"}, {"type": None}])
def test_an_unknown_schema_is_refused(schema: dict[str, Any]) -> None:
    """A type of another library is named, not guessed at."""
    with pytest.raises(ValueError, match="not known"):
        from_schema(schema)


def test_large_boxes_are_written_briefly() -> None:
    """A picture's bounds are two numbers, not two megabytes."""
    schema = to_schema(Box((96, 96, 3), "uint8", 0.0, 255.0))

    assert (schema["low"], schema["high"]) == (0.0, 255.0)


def test_a_bound_of_minus_zero_is_zero() -> None:
    """A space is recorded and drawn from in the same way however its zeros are written."""
    written = [Box((2,), "float64", low, high) for low, high in ((-0.0, -0.0), (0.0, 0.0), ((-0.0, 0.0), (0.0, -0.0)))]
    drawn = [sample(space, np.random.default_rng(0)) for space in written]

    assert len({dumps(to_schema(space)) for space in written}) == 1
    assert len({values.tobytes() for values in drawn}) == 1


def test_samples_are_uniform() -> None:
    """Each whole number comes as often as any other, bounded ones lie evenly, unbounded ones as a normal's, clipped."""
    wholes = Tuple(
        (Discrete(3, 5), MultiDiscrete((2, 4), (-1, 7)), MultiBinary((1, 2)), Box((2,), "int64", (-2, 0), (1, 4)))
    )
    lowest, counts = [5, -1, 7, 0, 0, -2, 0], [3, 2, 4, 2, 2, 4, 5]
    reals = Box((4,), "float64", (-3.0, 10.0, -math.inf, 0.5), (1.0, 10.5, math.inf, math.inf))
    random = np.random.default_rng(0)
    found = np.array([np.concatenate([np.ravel(part) for part in sample(wholes, random)]) for _ in range(1500)])
    drawn = np.sort([sample(reals, random) for _ in range(1500)], axis=0)
    even = np.linspace(0, 1, 1500)
    normal = np.sort(random.standard_normal(1500))
    expected = np.stack([-3 + 4 * even, 10 + even / 2, normal, np.maximum(normal, 0.5)], axis=1)

    for column, low, count in zip(found.T, lowest, counts, strict=True):
        assert np.unique(column).tolist() == list(range(low, low + count))
        assert np.bincount(column - low) == pytest.approx(1500 / count, rel=0.18)
    assert np.abs(drawn - expected)[40:-40].max(axis=0) == pytest.approx(0.0, abs=0.2)
