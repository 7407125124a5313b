"""Reads a sentence of BabyAI's language into what is to be done, in order.

A sentence is one part, or two in an order: "A, then B", "B after you A". A part is one instruction, or two in any order
that "and" joins. An instruction is "go to", "pick up" or "open" with a thing, or "put" a thing "next to" another one.
A thing is "the" or "a", perhaps a colour, a kind, and perhaps a side, seen from where the agent started. How a policy
knows which cell holds such a thing is told in ``policy.py``.
"""

from dataclasses import dataclass

from gridworld import BALL, BOX, COLOURS, DOOR, KEY

KINDS = {"door": DOOR, "key": KEY, "ball": BALL, "box": BOX}
SIDES = ("front", "behind", "left", "right")
PUT, BESIDE = "put", " next to "
VERBS = ("go to", "pick up", "open", PUT)


@dataclass(frozen=True, slots=True)
class NamedThing:
    """A thing as a sentence names it."""

    kind: int
    colour: int | None
    side: str | None
    """One of ``SIDES``; the thing is then in the room of the start."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One thing that is to be done."""

    verb: str
    what: NamedThing
    beside: NamedThing | None = None
    """For ``PUT`` alone."""


def read(sentence: str) -> list[list[Instruction]]:
    """Return the parts of a sentence in the order in which they are to be done."""
    first_last = " after you " in sentence
    parts = sentence.split(" after you ")[::-1] if first_last else sentence.split(", then ")
    return [[_instruction(text) for text in part.split(" and ")] for part in parts]


def _instruction(text: str) -> Instruction:
    verb = next(verb for verb in VERBS if text.startswith(verb))
    what, *beside = text.removeprefix(verb).split(BESIDE)
    return Instruction(verb, _named_thing(what), _named_thing(beside[0]) if beside else None)


def _named_thing(text: str) -> NamedThing:
    words = text.split()
    kind = next(KINDS[word] for word in words if word in KINDS)
    colour = next((COLOURS.index(word) for word in words if word in COLOURS), None)
    return NamedThing(kind, colour, next((side for side in SIDES if side in words), None))
