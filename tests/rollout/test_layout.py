"""Values of every space go through the wall and the record unchanged."""

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from evopolicygym.core.spaces import (
    Box,
    Dict,
    Discrete,
    MultiBinary,
    MultiDiscrete,
    Space,
    Text,
    Tuple,
    action_reader,
    sample,
    to_schema,
)
from evopolicygym.rollout.episode import Recorder
from evopolicygym.rollout.guest import layout

SHAPES = arrays.array_shapes(min_dims=0, max_dims=3, max_side=4)
LEAVES = st.one_of(
    st.builds(Discrete, st.integers(1, 9), st.integers(-5, 5)),
    st.builds(Box, SHAPES, st.sampled_from(["float32", "float64", "uint8", "int16"]), st.just(0.0), st.just(9.0)),
    st.integers(1, 4).map(lambda n: MultiDiscrete((3,) * n, (0,) * n)),
    st.builds(MultiBinary, SHAPES.filter(len)),
    st.builds(Text, st.integers(0, 9)),
)
SPACES: st.SearchStrategy[Space] = st.recursive(
    LEAVES,
    lambda parts: st.one_of(
        st.lists(parts, max_size=3).map(lambda some: Tuple(tuple(some))),
        st.dictionaries(st.text("abc", max_size=3), parts, max_size=3).map(lambda some: Dict(tuple(some.items()))),
    ),
    max_leaves=6,
)


def bound(space: Space, *, wide: bool, offset: int = 8) -> layout.Binding:
    schema = to_schema(space)
    return layout.bind(schema, bytearray(offset + layout.size(schema, wide=wide)), offset, wide=wide)


def plain(value: Any) -> Any:
    """Return a value as something that can be compared, dtypes included."""
    match value:
        case dict():
            return {name: plain(part) for name, part in value.items()}
        case tuple():
            return tuple(plain(part) for part in value)
        case np.ndarray() | np.generic():
            return str(value.dtype), value.tolist()
        case _:
            return value


@given(SPACES, st.integers(0, 2**32))
def test_an_observation_arrives_as_it_was(space: Space, seed: int) -> None:
    """What is written is read back with its own dtype, shape and type, for every space."""
    value = sample(space, np.random.default_rng(seed))
    binding = bound(space, wide=False)
    binding.write(value)

    assert plain(value) == plain(binding.read())


@pytest.mark.parametrize("dtype", ["bool", "uint8", "float32"])
def test_an_observation_with_a_copied_dtype_arrives(dtype: str) -> None:
    """A simulator that copied its space has arrays whose dtype is another object than ours."""
    value = np.array([0, 1], deepcopy(np.dtype(dtype)))
    binding = bound(Box((2,), dtype, 0.0, 1.0), wide=False)
    binding.write(value)

    assert plain(value) == plain(binding.read())


@given(SPACES, st.integers(0, 2**32))
def test_an_action_arrives_as_it_was(space: Space, seed: int) -> None:
    """An action travels wide, and the reader of actions gives back what the policy returned, unclipped."""
    value = sample(space, np.random.default_rng(seed))
    binding = bound(space, wide=True)
    binding.write(value)
    action, clipped = action_reader(space)(binding.read())

    assert (plain(value), False) == (plain(action), clipped)


@given(SPACES, st.integers(0, 2**32), st.integers(1, 4))
def test_columns_are_the_rows(space: Space, seed: int, steps: int) -> None:
    """Reading many steps at once gives what reading them one by one gives."""
    random, schema = np.random.default_rng(seed), to_schema(space)
    values = [sample(space, random) for _ in range(steps + 1)]
    frame = bytearray(8 + layout.size(schema, wide=False))
    recorder, write = Recorder(frame, 8, schema, schema, steps), layout.bind(schema, frame, 8, wide=False).write
    write(values[0])
    recorder.start()
    for value in values[1:]:
        write(value)
        recorder.add(value, 0.0, {})
    trajectory = recorder.trajectory(terminated=True, truncated=False)

    assert [plain(value) for value in values] == [
        plain(row(trajectory.observations, n, space)) for n in range(steps + 1)
    ]
    assert [plain(value) for value in values[1:]] == [plain(row(trajectory.actions, n, space)) for n in range(steps)]


def row(columns: Any, number: int, space: Space) -> Any:
    """Return one step of columns, as the value that a space's own type is."""
    match space:
        case Tuple():
            return tuple(row(part, number, inner) for part, inner in zip(columns, space.spaces, strict=True))
        case Dict():
            return {name: row(columns[name], number, inner) for name, inner in space.spaces}
        case Discrete():
            return int(columns[number])
        case _:
            return columns[number]


@pytest.mark.parametrize(
    ("space", "value"),
    [
        (Discrete(3), True),
        (Discrete(3), np.True_),
        (Discrete(3), 10**30),
        (Discrete(3), 1.5),
        (Box((2,), "float32", -1.0, 1.0), [1.0]),
        (Box((2,), "float32", -1.0, 1.0), ["a", "b"]),
        (Box((2,), "float32", -1.0, 1.0), [[1.0], [2.0, 3.0]]),
        (MultiBinary((2,)), [0.5, 1.0]),
        (Text(2), "abc"),
        (Text(2), b"a"),
        (Tuple((Discrete(2),)), [1, 1]),
        (Tuple((Discrete(2),)), 1),
        (Dict((("a", Discrete(2)),)), {"b": 1}),
        (Dict((("a", Discrete(2)),)), [1]),
    ],
)
def test_what_is_none_of_the_space_is_unreadable(space: Space, value: Any) -> None:
    """A value of another type, shape or set of names is refused before a byte is moved."""
    with pytest.raises(layout.Unreadable):
        bound(space, wide=True).write(value)


def test_a_value_read_is_its_own() -> None:
    """What was read stays as it is when the next frame arrives."""
    binding = bound(Box((2,), "float64", -1.0, 1.0), wide=False)
    binding.write(np.zeros(2))
    first = binding.read()
    binding.write(np.ones(2))

    assert first.tolist() == [0.0, 0.0]


def test_a_forged_text_stays_within_its_cells() -> None:
    """A length beyond the buffer, or bytes that are no UTF-8, make a text within bounds and no error."""
    schema = to_schema(Text(3))
    frame = bytearray(b"\xff" * (8 + layout.size(schema, wide=True)))
    text = layout.bind(schema, frame, 8, wide=True).read()

    assert "\ufffd" * (layout.size(schema, wide=True) - 4) == text
