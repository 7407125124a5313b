"""Outside values become typed ones or are refused, with the place of what is wrong."""

from dataclasses import dataclass, field
from math import isnan, nan
from pathlib import Path

import pytest

from evopolicygym.core.decoding import Undecodable, decoder
from places import ROOT


@dataclass(frozen=True, slots=True)
class Wheel:
    """A part."""

    radius: float


@dataclass(frozen=True, slots=True)
class Cart:
    """A whole."""

    name: str
    wheels: tuple[Wheel, ...] = field(default=())


def refusal(found: object) -> Undecodable:
    """Return why a value is no cart."""
    with pytest.raises(Undecodable) as refused:
        decoder(Cart).value(found)
    return refused.value


def test_a_value_becomes_what_its_annotations_say() -> None:
    """Dataclasses within dataclasses are read, from JSON as from values."""
    expected = Cart("a", (Wheel(1.0),))

    assert decoder(Cart).value({"name": "a", "wheels": [{"radius": "1"}]}) == expected
    assert decoder(Cart).json(b'{"name": "a", "wheels": [{"radius": 1.0}]}', strict=True) == expected
    assert decoder(Cart).json(STRING) == expected


@pytest.mark.parametrize(
    ("found", "where"),
    [({"name": "a", "wheels": [{"radius": "x"}]}, "wheels.0.radius"), ({}, "name"), ([], ""), (None, "")],
)
def test_what_is_wrong_is_named_by_its_place(found: object, where: str) -> None:
    """The first problem is the message, and says where."""
    error = refusal(found)

    assert error.problems[0].where == where
    assert str(error).startswith(f"{where}: " if where else "Input should be")


def test_unknown_fields_are_refused_at_any_depth_or_passed_over() -> None:
    """A field that there isn't is a problem, unless who reads lets it be."""
    found = {"name": "a", "wheels": [{"radius": 1, "spokes": 3}]}
    (problem,) = refusal(found).problems

    assert (problem.where, problem.is_unknown, problem.is_missing) == ("wheels.0.spokes", True, False)
    assert decoder(Cart, allow_unknown=True).value(found) == Cart("a", (Wheel(1.0),))


def test_no_infinity_where_none_is_wanted() -> None:
    """What is no finite number is refused where that is asked for, in parts too."""
    found = {"name": "a", "wheels": [{"radius": nan}]}

    assert isnan(decoder(Cart).value(found).wheels[0].radius)
    with pytest.raises(Undecodable, match=r"wheels\.0\.radius: .*finite"):
        decoder(Cart, allow_inf_nan=False).value(found)


STRING = b'{"name": "a", "wheels": [{"radius": "1"}]}'


@pytest.mark.parametrize("text", [b"", b"{", b'{"name": "a"}, {"name": "b"}', b'{"name": 1}', b"\xff", STRING])
def test_text_that_holds_something_else_is_refused(text: bytes) -> None:
    """Text that isn't one JSON value of the type is undecodable, and nothing else."""
    with pytest.raises(Undecodable):
        decoder(Cart).json(text, strict=True)


def test_a_value_is_not_shown_by_its_problem() -> None:
    """What stands in the wrong place may be a key: neither the message nor a problem's text has it."""
    error = refusal({"name": "a", "password": "sk-secret-1"})

    assert "sk-secret-1" not in f"{error} {error!r} {error.problems!r}"


def test_there_is_one_place_that_reads_pydantics_complaints() -> None:
    """No other module catches pydantic's errors, so that all say what is wrong in one way."""
    files = (ROOT / "src" / "evopolicygym").rglob("*.py")

    assert [Path("core/decoding.py")] == [
        file.relative_to(ROOT / "src" / "evopolicygym")
        for file in files
        if "ValidationError" in file.read_text(encoding="utf-8")
    ]
