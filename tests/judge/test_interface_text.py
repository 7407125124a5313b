"""What an agent reads of its interface is true: whoever does what it says comes to the values that it is shown."""

import json
import re
from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from drawn_spaces import spaces
from evopolicygym.core.interface import draw_interface, observation_converter
from evopolicygym.core.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple, sample, to_schema
from evopolicygym.core.strict_json import dumps
from evopolicygym.records.interface_text import MOST_LISTED, changes_text

GRIDS = [
    Box((7, 7, 3), "uint8", 0.0, 255.0),
    Box((5, 4), "float32", -1.0, 1.0),
    Box((6,), "uint8", 0.0, 255.0),
    Box((MOST_LISTED,), "float32", -1.0, 1.0),
    Box((MOST_LISTED + 1,), "float32", -1.0, 1.0),
    Box((9, 9), "uint8", 0.0, 12.0),
]
STANDARD = "as in the standard interface."
ENTRY = re.compile(r"yours \[(\d+)\] is (?:(\S+) (\*|-) |(-))?\(?\[(\d+)\]\)?(?:, |\.$)")
LIST = re.compile(r"(?: by|[a-z]|is 0:) (-?\d[^a-df-z]*?)(?:, in this order)?\.$")


def numbers(sentence: str) -> list[float]:
    """Return the numbers that a sentence lists at its end."""
    found = LIST.search(sentence)
    return [float(number) for number in found[1].split(", ")] if found else []


def places(sentence: str) -> list[int]:
    return list(map(int, numbers(sentence)))


def coded(sentence: str, value: int) -> int:
    """Return the agent's own number for a standard one."""
    found = re.match(r"your numbers (-?\d+) to (-?\d+) are the standard numbers ", sentence)
    assert found
    standard = places(sentence)
    assert sorted(standard) == list(range(int(found[1]), int(found[2]) + 1))
    return int(found[1]) + standard.index(value) if value in standard else value


def array(said: dict[str, list[str]], name: str, value: Any) -> Any:
    """Return the agent's own array for a standard one."""
    yours = np.array(value, np.float64)
    for sentence in said[name]:
        for place, number, sign, minus, standard in ENTRY.findall(sentence):
            entry = float(value[int(standard)])
            yours[int(place)] = -entry if minus else eval(f"{number or 1} {sign or '*'} {entry}")  # noqa: S307 - ours
        if found := re.match(r"axis (\d) is in reverse: your index i is the standard index (\d+) - i", sentence):
            assert int(found[2]) == yours.shape[int(found[1])] - 1
            yours = np.flip(yours, int(found[1]))
        elif found := re.match(r"your indices along axis (\d) are", sentence):
            yours = yours.take(places(sentence), int(found[1]))
        elif "then multiplied, along your last axis" in sentence:
            yours = yours * numbers(sentence)
        elif "then increased, along your last axis" in sentence:
            yours = yours + numbers(sentence)
        elif sentence.startswith("your numbers"):
            yours = np.vectorize(lambda code, told=sentence: coded(told, code))(yours)
    for channel in range(yours.shape[-1]):
        for sentence in said.get(f"{name} in your index {channel} of the last axis", ()):
            yours[..., channel] = np.vectorize(lambda code, told=sentence: coded(told, code))(yours[..., channel])
    return yours


def yours(said: dict[str, list[str]], space: Space, name: str, value: Any) -> Any:
    """Return an agent's own value for a standard one, by what it reads alone."""
    if said[name] == [STANDARD]:
        return value
    match space:
        case Discrete():
            return coded(said[name][0], value)
        case MultiDiscrete():
            entries = [coded(said[f"{name}, standard entry {place}"][0], each) for place, each in enumerate(value)]
            return np.array(entries)[places(said[name][0])]
        case MultiBinary():
            bits = np.ravel(value)[places(said[name][0])]
            bits[places(said[name][1])] ^= 1
            return bits.reshape(space.shape)
        case Tuple():
            parts = enumerate(zip(space.spaces, value, strict=True))
            own = [yours(said, part, f"{name}, standard part {place}", each) for place, (part, each) in parts]
            return tuple(own[place] for place in places(said[name][0]))
        case Dict():
            return {key: yours(said, part, f"{name}[{key!r}]", value[key]) for key, part in space.spaces}
    return array(said, name, value)


def flat(value: Any) -> list[float]:
    """Return all numbers of a value, in order; its texts stay as they are."""
    if isinstance(value, dict | tuple):
        return [number for part in (value.values() if isinstance(value, dict) else value) for number in flat(part)]
    return [] if isinstance(value, str) else np.ravel(value).astype(np.float64).tolist()  # type: ignore[no-any-return]


@settings(max_examples=60)
@given(some.sampled_from(GRIDS) | spaces, some.binary(min_size=32, max_size=32), some.integers(0, 2**32 - 1))
def test_what_an_interface_is_said_to_change_it_changes(space: Space, key: bytes, seed: int) -> None:
    """An observation that is changed as the text says is the one that the interface shows."""
    schema = json.loads(dumps(to_schema(space)))
    interface = draw_interface(key, "permuted", schema, schema)
    said = defaultdict[str, list[str]](list)
    for line in changes_text(interface, "observation").splitlines():
        name, _, sentence = line.removeprefix("- ").partition(": ")
        said[name].append(sentence)
    value = sample(space, np.random.default_rng(seed))
    shown = flat(observation_converter(interface)(value))

    assert flat(yours(said, space, "observation", value)) == pytest.approx(shown, rel=1e-5, abs=1e-5)
