"""What an agent reads of an interface: which standard values its own are, or numbers and bounds alone."""

from collections.abc import Iterator, Sequence
from typing import Any

from evopolicygym.core.interface import Interface, rescaled
from evopolicygym.core.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Text, Tuple
from evopolicygym.core.transforms import MIRRORED, SAME, Schema, Transform, invert_order

PERMUTED_NOTE = """\
Your interface is not the standard one. Numbers of entries, actions and codes in this text are those of the standard
interface, except where it says "yours".
"""
MOST_LISTED = 64
"""Entries that are listed singly."""


def changes_text(interface: Interface, side: str) -> str:
    """Return which standard values an agent's own are; ``side`` is ``observation`` or ``action``."""
    lines = _changes(interface[side]["transform"], interface[side]["schema"], side)
    return "\n".join(f"- {line}" for line in lines)


def _changes(transform: Transform, schema: Schema, name: str) -> Iterator[str]:
    if not transform:
        yield f"{name}: as in the standard interface."
        return
    match schema["type"]:
        case "Discrete":
            yield f"{name}: {_codes(transform['codes'], int(schema.get('start', 0)))}"
        case "Box":
            yield from _array_changes(transform, schema, name)
        case "MultiDiscrete":
            yield f"{name}: your entries are the standard entries {_listed(transform['order'])}, in this order."
            for index in transform["order"]:
                start = int((schema.get("start") or [0] * len(schema["nvec"]))[index])
                yield f"{name}, standard entry {index}: {_codes(transform['codes'][index], start)}"
        case "MultiBinary":
            yield f"{name}: your elements, row by row, are the standard elements {_listed(transform['order'])}."
            turned = [index for index, is_turned in enumerate(transform["turned"]) if is_turned]
            yield f"{name}: of your elements, these are 1 where the standard is 0: {_listed(turned) or 'none'}."
        case "Tuple":
            yield f"{name}: your parts are the standard parts {_listed(transform['order'])}, in this order."
            for index, (part, space) in enumerate(zip(transform["parts"], schema["spaces"], strict=True)):
                yield from _changes(part, space, f"{name}, standard part {index}")
        case "Dict":
            for part, space in schema["spaces"].items():
                yield from _changes(transform["parts"][part], space, f"{name}[{part!r}]")


def _array_changes(transform: Transform, schema: Schema, name: str) -> Iterator[str]:
    axes, shape = transform["axes"], schema["shape"]
    factors, offsets = transform.get("factors", []), transform.get("offsets", [])
    if len(shape) == 1 and shape[0] <= MOST_LISTED:
        entries = zip(axes[0], factors, offsets or [0] * shape[0], strict=True)
        parts = (
            f"yours [{index}] is {rescaled(f'[{standard}]', factor, offset)}"
            for index, (standard, factor, offset) in enumerate(entries)
        )
        yield f"{name}: {', '.join(parts)}."
        return
    for axis, order in enumerate(axes):
        if order == MIRRORED:
            yield f"{name}: axis {axis} is in reverse: your index i is the standard index {shape[axis] - 1} - i."
        elif order != SAME:
            yield f"{name}: your indices along axis {axis} are the standard indices {_listed(order)}, in this order."
    if any(factor != 1 for factor in factors):
        yield f"{name}: then multiplied, along your last axis, by {_listed(factors)}."
    if any(offsets):
        yield f"{name}: then increased, along your last axis, by {_listed(offsets)}."
    for index, codes in enumerate(transform.get("codes", [])):
        where = f" in your index {index} of the last axis" if len(transform["codes"]) > 1 else ""
        first = transform["first_code"]
        yield f"{name}{where}: {_codes([code - first for code in codes], first)}"


def _codes(codes: Sequence[int], start: int) -> str:
    standard = [int(index) + start for index in invert_order(codes)]
    yours = f"{start} to {start + len(codes) - 1}"
    return f"your numbers {yours} are the standard numbers {_listed(standard)}, in this order."


def _listed(numbers: Sequence[Any]) -> str:
    return ", ".join(map(str, numbers))


def plain_text(space: Space) -> str:
    """Return a space in numbers and bounds alone."""
    return "\n".join(_plain(space, ""))


def _plain(space: Space, name: str) -> Iterator[str]:
    before = f"- {name}: " if name else "- "
    match space:
        case Discrete():
            yield f"{before}an integer from {space.start} to {space.start + space.n - 1}"
        case Box():
            yield f"{before}an array of shape {_shape(space.shape)}, {space.dtype}"
            low, high = (bound.ravel().tolist() for bound in space.limits())
            if space.size <= MOST_LISTED:
                ends = zip(low, high, strict=True)
                yield from (f"  - [{index}] {least:g} to {most:g}" for index, (least, most) in enumerate(ends))
            else:
                yield f"  - each element {min(low):g} to {max(high):g}"
        case MultiDiscrete():
            yield f"{before}{len(space.nvec)} integers"
            ends = zip(space.start, space.nvec, strict=True)
            yield from (f"  - [{index}] {start} to {start + n - 1}" for index, (start, n) in enumerate(ends))
        case MultiBinary():
            yield f"{before}an array of shape {_shape(space.shape)} of zeros and ones"
        case Text():
            yield f"{before}a text of at most {space.max_length} characters"
        case Tuple():
            yield f"{before}a tuple of {len(space.spaces)} parts"
            for index, part in enumerate(space.spaces):
                yield from _plain(part, f"{name}[{index}]")
        case Dict():
            yield f"{before}a dict with the keys {', '.join(key for key, _ in space.spaces)}"
            for key, part in space.spaces:
                yield from _plain(part, f"{name}[{key!r}]")


def _shape(shape: tuple[int, ...]) -> str:
    return " by ".join(map(str, shape)) or "()"
