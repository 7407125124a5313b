"""Interfaces: what they change they change back bit for bit, and what they show is of the space that they show."""

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from drawn_spaces import spaces, transported
from evopolicygym.core.errors import UsageError
from evopolicygym.core.interface import (
    action_converter,
    draw_interface,
    interface_key,
    observation_converter,
    shown_action_converter,
    shown_action_reader,
    shown_info,
    shown_schemas,
    shown_spec,
)
from evopolicygym.core.spaces import (
    Box,
    Dict,
    Discrete,
    InvalidAction,
    Space,
    Text,
    Tuple,
    action_reader,
    from_schema,
    sample,
    to_schema,
)
from evopolicygym.core.strict_json import dumps
from evopolicygym.core.transforms import bind
from fakes import TOY

keys = some.binary(min_size=32, max_size=32)
levels = some.sampled_from(["permuted", "anonymous"])
GRID = Box((7, 7, 3), "uint8", 0.0, 255.0)
PICTURE = Box((96, 80, 3), "uint8", 0.0, 255.0)
BYTES = Box((5,), "uint8", 0.0, 255.0)
MATRIX = Box((5, 5), "float32", -1.0, 1.0)
GRIDWORLD = Dict((("direction", Discrete(4)), ("image", GRID), ("mission", Text(60))))


def drawn(space: Space, key: bytes, level: str) -> dict[str, Any]:
    """Return an interface of a space for observations and actions, for actions with texts a permuted one."""
    schema = json.loads(dumps(to_schema(space)))
    return draw_interface(key, "permuted" if '"Text"' in dumps(schema) else level, schema, schema)


def drawn_observation(space: Space, key: bytes, level: str) -> dict[str, Any]:
    return draw_interface(key, level, json.loads(dumps(to_schema(space))), to_schema(Discrete(2)))


def bits(value: Any) -> Any:
    """Return a value's type and all its bits."""
    match value:
        case dict():
            return {name: bits(part) for name, part in value.items()}
        case tuple():
            return [bits(part) for part in value]
        case np.ndarray() | np.generic():
            return value.dtype.str, value.shape, value.tobytes()
        case _:
            return type(value), value


def changed_back(interface: dict[str, Any], value: Any) -> Any:
    side = interface["observation"]
    return bind(side["transform"], side["schema"], inverse=True)(value)


@given(spaces | some.sampled_from([GRID, PICTURE, BYTES, MATRIX, GRIDWORLD]), keys, levels, some.integers(0, 2**32 - 1))
def test_observations_change_back_bit_for_bit(space: Space, key: bytes, level: str, seed: int) -> None:
    """An observation that an interface changed is changed back to the same bits, and lies in the space shown."""
    interface = drawn_observation(space, key, level)
    value = sample(space, np.random.default_rng(seed))
    shown = observation_converter(interface)(value)
    assert bits(changed_back(interface, shown)) == bits(value)
    assert bits(observation_converter(json.loads(json.dumps(interface)))(value)) == bits(shown)
    _read(from_schema(shown_schemas(interface)[0]), shown, clipped=False)


@given(some.lists(some.floats(width=32), min_size=1, max_size=12), keys, some.sampled_from(["float32", "float64"]))
def test_every_number_changes_back(numbers: list[float], key: bytes, dtype: str) -> None:
    """Zeros of both signs, subnormal numbers, infinities and NaN come back with the same bits below the overflow."""
    value = np.array(numbers, dtype)
    value = np.where(np.abs(value) >= 2.0**125, np.array(math.inf, dtype), value).astype(dtype)
    interface = drawn(Box(value.shape, dtype, -math.inf, math.inf), key, "permuted")
    assert changed_back(interface, observation_converter(interface)(value)).tobytes() == value.tobytes()


@given(spaces, keys, levels, some.integers(0, 2**32 - 1))
def test_actions_are_read_as_through_the_standard_interface(space: Space, key: bytes, level: str, seed: int) -> None:
    """A policy that answers through an interface has the same action played as one that answers through none."""
    interface = drawn(space, key, level)
    side = interface["action"]
    value = transported(space, sample(space, np.random.default_rng(seed)))
    for answer in (value, _scaled(value)):
        standard = _read_or_none(space, answer, action_reader(space))
        shown = bind(side["transform"], side["schema"], lenient=True)(answer)
        found = _read_or_none(from_schema(shown_schemas(interface)[1]), shown, shown_action_reader(interface))
        assert (found is None) is (standard is None)
        if found and standard:
            assert bits(action_converter(interface)(found[0])) == bits(standard[0])
            assert found[1] == standard[1]


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("shape", [(2,), (4,), (3, 1), (1, 3), ()])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_an_array_of_another_shape_is_refused(shape: tuple[int, ...], dtype: str, *, inverse: bool) -> None:
    """No element of an array is dropped or repeated so that it fits."""
    side = drawn(Box((3,), "float32", -1.0, 1.0), bytes(32), "permuted")["action"]
    with pytest.raises(ValueError, match="shape"):
        bind(side["transform"], side["schema"], inverse=inverse)(np.zeros(shape, dtype))


@given(spaces, keys, some.integers(0, 2**32 - 1))
def test_shown_actions_lead_to_actions(space: Space, key: bytes, seed: int) -> None:
    """Every action of the space shown is an action of the simulator, and is shown as itself."""
    interface = drawn(space, key, "permuted")
    shown = sample(from_schema(shown_schemas(interface)[1]), np.random.default_rng(seed))
    action = action_converter(interface)(shown)
    _read(space, action, clipped=False)
    assert bits(shown_action_converter(interface)(action)) == bits(shown)


@pytest.mark.parametrize("level", ["permuted", "anonymous"])
def test_draws_depend_on_secret_and_environment(level: str) -> None:
    """Another experiment and another environment have another draw; the same have the same."""
    space = Box((12,), "float32", -1.0, 1.0)
    first, again, other, elsewhere = (
        drawn(space, interface_key(secret, name), level)
        for secret, name in ((b"1" * 32, "ant"), (b"1" * 32, "ant"), (b"2" * 32, "ant"), (b"1" * 32, "pusher"))
    )
    assert first == again
    assert first["observation"] != other["observation"] != elsewhere["observation"] != first["observation"]


def test_an_interface_stays_what_it_was() -> None:
    """What a key draws, and makes of numbers and words, is what it was when runs were recorded."""
    image = (np.arange(147) % 5).astype(np.uint8).reshape(7, 7, 3)
    interface = drawn_observation(GRIDWORLD, bytes(32), "anonymous")
    shown = observation_converter(interface)({"direction": 2, "image": image, "mission": "go to the Red ball"})
    numbers = observation_converter(drawn_observation(MATRIX, bytes(32), "permuted"))(np.eye(5, dtype="float32"))
    found = {name: part if isinstance(part, str) else np.asarray(part).tolist() for name, part in shown.items()}

    assert (found["x1"], found["x0"][0][0], found["x2"]) == (1, [11, 12, 10], "em vl uet Rkq dopu")
    assert hashlib.sha256(dumps([found, numbers.tolist()]).encode()).hexdigest()[:16] == "037444880c21fee0"


def test_levels_share_their_draw() -> None:
    """Permuted and anonymous change numbers alike, so that they differ in what the agent is told alone."""
    key = interface_key(b"1" * 32, "door_key")
    permuted, anonymous = (
        drawn_observation(GRIDWORLD, key, level)["observation"]["transform"] for level in ("permuted", "anonymous")
    )
    assert permuted["parts"]["image"] == anonymous["parts"]["image"]
    assert permuted["names"] == {"direction": "direction", "image": "image", "mission": "mission"}
    assert sorted(anonymous["names"].values()) == ["x0", "x1", "x2"]
    assert permuted["parts"]["mission"] == {}


def test_an_anonymous_space_has_no_words() -> None:
    """Nothing of an anonymous schema has a name, a meaning or a word of a text."""
    space = Dict(
        (
            ("speed", Box((2,), "float32", (0.0, -1.0), (1.0, 3.0), ("wind", "rain"))),
            ("gear", Discrete(2, 0, ("slow", "fast"))),
        )
    )
    interface = drawn(space, bytes(32), "anonymous")
    text = dumps(shown_schemas(interface))
    assert not any(word in text for word in ("speed", "gear", "wind", "rain", "slow", "fast", "labels", "fields"))
    mission = "go to the red ball"
    changed = observation_converter(drawn_observation(Text(60), bytes(32), "anonymous"))(mission)
    assert [len(word) for word in changed.split()] == [len(word) for word in mission.split()]
    assert not set(changed.split()) & set(mission.split())


def test_permuted_meanings_say_what_entries_are() -> None:
    """The fields and labels of a permuted space name the standard entry and its factor."""
    space = Box((3,), "float32", -1.0, 2.0, ("a", "b", "c"))
    interface = drawn(space, bytes(32), "permuted")
    shown = from_schema(shown_schemas(interface)[0])
    value = np.array([3.0, 5.0, 7.0], "float32")
    names = {"a": 3.0, "b": 5.0, "c": 7.0}
    assert isinstance(shown, Box)
    for field, number in zip(shown.fields, observation_converter(interface)(value).tolist(), strict=True):
        factor, _, name = (
            field.rpartition(" * ") if " * " in field else (f"{field[:-1].count('-') * -2 + 1}", "", field)
        )
        assert float(factor) * names[name.strip("-()")] == number
    labelled = drawn(Discrete(3, 0, ("x", "y", "z")), bytes(32), "permuted")
    labels = shown_schemas(labelled)[1]["labels"]
    assert [labels[shown_action_converter(labelled)(action)] for action in range(3)] == ["x", "y", "z"]


def test_an_anonymous_environment_has_no_words_of_its_own() -> None:
    """Name, texts, parts of the reward and success say nothing of the environment; a permuted one is named as it is."""
    schema = to_schema(Discrete(2))
    permuted, anonymous = (
        draw_interface(b"key", level, schema, schema, TOY.reward_components) for level in ("permuted", "anonymous")
    )
    shown = shown_spec(replace(TOY, family="no agent is told"), anonymous)
    words = {
        TOY.name,
        TOY.objective,
        TOY.reward,
        TOY.termination,
        *TOY.observation,
        *TOY.action,
        *TOY.reward_components,
    }

    assert [word for word in words if word in repr(shown)] == []
    assert shown.success
    assert shown.success.meaning == "an episode counts as a success or not"
    assert shown_spec(replace(TOY, success=None), anonymous).success is None
    assert shown_spec(TOY, permuted) == shown_spec(TOY, {}) == TOY


def test_anonymous_info_has_numbers_under_codes() -> None:
    """Of info an anonymous interface shows numbers alone, parts of the reward under the names that /info has."""
    schema = to_schema(Discrete(2))
    interface = draw_interface(bytes(32), "anonymous", schema, schema, ("forward", "control"))
    info = {
        "forward": 1.5,
        "x_position": np.float64(2.0),
        "crashed": True,
        "name": "ant",
        "state": np.zeros(2),
        "d": {},
    }
    shown = shown_info(interface, info)
    assert sorted(interface["components"].values()) == ["part_0", "part_1"]
    assert shown[interface["components"]["forward"]] == 1.5
    assert sorted(map(str, shown.values())) == ["1.5", "2.0", "True"]
    assert not any(name in shown for name in info)


def _scaled(value: Any) -> Any:
    """Return an answer whose numbers are mostly out of bounds."""
    match value:
        case dict():
            return {name: _scaled(part) for name, part in value.items()}
        case tuple():
            return tuple(map(_scaled, value))
        case np.ndarray():
            return value * 3 + 1
        case int():
            return value * 3 + 1
        case _:
            return value


def _read(space: Space, value: Any, *, clipped: bool) -> None:
    assert action_reader(space)(transported(space, value))[1] is clipped


def _read_or_none(space: Space, answer: Any, read: Callable[[Any], tuple[Any, bool]]) -> tuple[Any, bool] | None:
    """Return what comes of an answer; None where it is refused, also as it can't be transported."""
    try:
        return read(transported(space, answer))
    except (InvalidAction, TypeError, ValueError):
        return None


def test_actions_that_are_texts_have_no_anonymous_interface() -> None:
    """Where a policy must find words, an anonymous interface is refused by a message that names the other ones."""
    schema = to_schema(Tuple((Discrete(2), Text(9))))
    with pytest.raises(UsageError, match="permuted"):
        draw_interface(bytes(32), "anonymous", schema, schema)
    assert draw_interface(bytes(32), "permuted", schema, schema)["action"]["transform"]["parts"][1] == {}
