"""Gymnasium's spaces become ours, and values are held to them."""

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces as theirs

from evopolicygym.core import spaces as ours
from evopolicygym.core.errors import UsageError
from evopolicygym.environments.environment import Environment
from evopolicygym.environments.spaces import MISSION_LENGTH, from_gymnasium, from_json, mismatch
from evopolicygym.specs import catalog
from specs import MINIGRID

AB = theirs.Text(3, min_length=0, charset="ab")


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        (theirs.Discrete(3, start=-1), ours.Discrete(3, -1)),
        (theirs.Box(-1.0, 2.0, (2, 1), np.float32), ours.Box((2, 1), "float32", -1.0, 2.0)),
        (
            theirs.Box(np.array([0.0, -np.inf]), np.ones(2), dtype=np.float64),
            ours.Box((2,), "float64", (0.0, -np.inf), 1.0),
        ),
        (theirs.Box(0, 255, (2,), np.uint8), ours.Box((2,), "uint8", 0.0, 255.0)),
        (theirs.MultiDiscrete([2, 3], start=[0, 1]), ours.MultiDiscrete((2, 3), (0, 1))),
        (theirs.MultiBinary([2, 2]), ours.MultiBinary((2, 2))),
        (theirs.MultiBinary(4), ours.MultiBinary((4,))),
        (theirs.Text(12, charset="ba"), ours.Text(12, 1, "ab")),
        (theirs.Tuple([theirs.Discrete(2), AB]), ours.Tuple((ours.Discrete(2), ours.Text(3, 0, "ab")))),
        (theirs.Dict({"b": AB, "a": theirs.Discrete(2)}), None),
        (
            theirs.Dict({0: AB, "a": theirs.Discrete(2)}),
            ours.Dict((("0", ours.Text(3, 0, "ab")), ("a", ours.Discrete(2)))),
        ),
    ],
)
def test_every_space_has_our_form(space: theirs.Space[Any], expected: ours.Space | None) -> None:
    """Each space of gymnasium that a policy can be handed has its form here; a Dict's names come sorted."""
    expected = expected or ours.Dict((("a", ours.Discrete(2)), ("b", ours.Text(3, 0, "ab"))))

    assert from_gymnasium(space) == expected


@pytest.mark.parametrize(
    "space", [theirs.Sequence(theirs.Discrete(2)), theirs.MultiDiscrete(np.array([[2, 3], [4, 5]]))]
)
def test_a_space_that_no_policy_can_be_handed_is_refused(space: theirs.Space[Any]) -> None:
    """A space without a schema is refused with those that have one."""
    with pytest.raises(UsageError, match="Discrete, Box"):
        from_gymnasium(space)


def test_meanings_attach_only_where_they_fit() -> None:
    """Fields go to a flat Box and labels to a Discrete of as many, and nowhere else."""
    texts = ("one", "two")
    flat, picture = theirs.Box(0.0, 1.0, (2,)), theirs.Box(0.0, 1.0, (2, 1))

    assert from_gymnasium(flat, fields=texts) == ours.Box((2,), "float32", 0.0, 1.0, texts)
    assert from_gymnasium(picture, fields=texts) == ours.Box((2, 1), "float32", 0.0, 1.0)
    assert from_gymnasium(theirs.Discrete(2), labels=texts) == ours.Discrete(2, 0, texts)
    assert from_gymnasium(theirs.Discrete(3), labels=texts) == ours.Discrete(3)


@pytest.mark.parametrize("name", MINIGRID)
def test_missions_are_texts_that_fit(name: str) -> None:
    """A MiniGrid mission's schema is the same for every object, and every mission fits it."""
    one, other = Environment(catalog.load(name)), Environment(catalog.load(name))
    missions = [one.reset(seed)["mission"] for seed in range(20)]
    schema = ours.to_schema(one.observation_space)

    assert schema["spaces"]["mission"] == {"type": "Text", "max_length": MISSION_LENGTH}
    assert schema == ours.to_schema(other.observation_space)
    assert max(map(len, missions)) <= 53


PAIR = ours.Tuple((ours.Discrete(2), ours.Text(3)))
NAMED = ours.Dict((("a", ours.Discrete(2)), ("b", ours.MultiBinary((2,)))))


@pytest.mark.parametrize(
    ("space", "value", "expected"),
    [
        (ours.Discrete(2), 1, 1),
        (ours.Box((2,), "float32", 0.0, 1.0), [0, 0.5], np.array([0.0, 0.5])),
        (ours.MultiDiscrete((2, 3), (0, 0)), [1, 2], np.array([1, 2])),
        (PAIR, [1, "x"], (1, "x")),
        (NAMED, {"b": [0, 1], "a": 0}, {"a": 0, "b": np.array([0, 1])}),
    ],
)
def test_json_becomes_a_value_of_the_space(space: ours.Space, value: Any, expected: Any) -> None:
    """An action written as JSON becomes what the rule for actions reads."""
    np.testing.assert_equal(from_json(space, value), expected)


@pytest.mark.parametrize(
    ("space", "value"),
    [
        (ours.Discrete(2), True),
        (ours.Discrete(2), 1.0),
        (ours.Box((2,), "float32", 0.0, 1.0), [0.0]),
        (ours.Box((2,), "float32", 0.0, 1.0), ["x", "y"]),
        (ours.Text(3), 7),
        (PAIR, [1]),
        (NAMED, {"a": 1}),
    ],
)
def test_json_of_another_space_is_refused(space: ours.Space, value: Any) -> None:
    """JSON of the wrong type, shape or names is no action."""
    with pytest.raises(ours.InvalidAction):
        from_json(space, value)


UNIT = theirs.Box(0.0, 1.0, (2,), np.float32)


@pytest.mark.parametrize(
    ("space", "value", "words"),
    [
        (theirs.Discrete(2), np.int64(1), ""),
        (theirs.Discrete(2), np.array(1), ""),
        (theirs.Discrete(2), 2, "Discrete(2)"),
        (theirs.Discrete(2), 1.0, "integer"),
        (UNIT, np.array([7, 7], np.float32), "outside"),
        (UNIT, np.zeros(2, np.float16), ""),
        (UNIT, np.zeros(2), "float64"),
        (UNIT, np.zeros(3, np.float32), "(3,)"),
        (theirs.Box(0.0, 1.0, (), np.float32), np.float32(1), ""),
        (theirs.MultiDiscrete([2]), np.array([1]), ""),
        (theirs.MultiBinary(1), np.array([2], np.int8), "outside"),
        (theirs.Text(3), "four", "four"),
        (theirs.Tuple([theirs.Discrete(2), AB]), (0, "four"), "1: "),
        (theirs.Tuple([theirs.Discrete(2), AB]), [0, "a"], ""),
        (theirs.Dict({0: theirs.Discrete(2)}), {"0": 1}, ""),
        (theirs.Dict({"a": theirs.Discrete(2), "b": AB}), {"a": 0}, "a, b"),
    ],
)
def test_an_observation_is_held_to_its_space(space: theirs.Space[Any], value: Any, words: str) -> None:
    """What the simulator's space contains is sound; else the message says what is wrong, and where."""
    found = mismatch(space, value)

    assert words in found
    assert bool(words) == bool(found)


def test_a_bound_may_be_left_out() -> None:
    """Simulators exceed the bounds of a Box; its dtype and shape are never left out."""
    assert mismatch(UNIT, np.array([7, 7], np.float32), bounds=False) == ""
    assert mismatch(UNIT, np.array([7.0, 7.0]), bounds=False) != ""
