"""What a compiled filter of system calls lets through, read from its own instructions.

A filter is a program of the kernel's packet-filter machine over the number of a call and its arguments. It is walked
along both sides of every comparison of an argument, so what comes out is all that passes, whoever wrote the rules.
"""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from operator import and_, eq, ge, gt
from struct import iter_unpack

LOAD, ALWAYS, EQUAL, GREATER, AT_LEAST, ANY_BIT, MASK, RETURN = 0x20, 0x05, 0x15, 0x25, 0x35, 0x45, 0x54, 0x06
COMPARISONS = {EQUAL: eq, GREATER: gt, AT_LEAST: ge, ANY_BIT: and_}
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16
"""Where these lie in what a filter looks at, in bytes."""
AUDIT_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOW = 0x7FFF0000
NUMBERS = 1024
"""More system calls than any kernel has."""
WORD = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison of 32 bits of an argument, and how it must come out."""

    argument: int
    high: bool
    mask: int
    comparison: int
    value: int
    holds: bool

    def allows(self, value: int) -> bool:
        """Return whether an argument's value meets it."""
        word = (value >> 32 if self.high else value) & self.mask
        return bool(COMPARISONS[self.comparison](word, self.value)) is self.holds


@dataclass(frozen=True, slots=True)
class Allowed:
    """One way through the filter: a call's number, and what must hold of its arguments."""

    number: int
    conditions: tuple[Condition, ...]

    def values(self, argument: int, offered: Iterable[int]) -> list[int]:
        """Return values that an argument may have: of those offered, and what the conditions themselves name."""
        own = [one for one in self.conditions if one.argument == argument]
        if not own:
            return list(offered)
        named = [one for one in own if one.comparison == EQUAL and one.holds]
        base = sum(one.value << 32 * one.high for one in named)
        fixed = 0
        for one in named:
            fixed |= one.mask << 32 * one.high
        free = [1 << bit for bit in range(64) if not fixed >> bit & 1]
        found = (*offered, base, *(base | bit for bit in free))
        return [value for value in dict.fromkeys(found) if all(one.allows(value) for one in own)]


def allowed(program: bytes, machine: str) -> Iterator[Allowed]:
    """Yield every way through a compiled filter for calls of a machine's own architecture.

    Ways that differ only in what does not hold are one.
    """
    instructions = list(iter_unpack("<HBBI" if sys.byteorder == "little" else ">HBBI", program))
    for number in range(NUMBERS):
        known = {NUMBER: number, ARCHITECTURE: AUDIT_ARCHITECTURES[machine]}
        ways = {tuple(one for one in way if one.holds): way for way in _ways(instructions, known)}
        yield from (Allowed(number, conditions) for conditions in ways.values())


def _ways(instructions: list[tuple[int, int, int, int]], known: dict[int, int]) -> Iterator[tuple[Condition, ...]]:
    """Yield the conditions under which the program ends with allowing, one tuple for each way to such an end."""
    # Where in the program, the number that is loaded or else which word of which argument, its mask, conditions so far.
    open_ways: list[tuple[int, int | None, int, int, tuple[Condition, ...]]] = [(0, 0, 0, WORD, ())]
    while open_ways:
        at, loaded, offset, mask, conditions = open_ways.pop()
        code, if_so, if_not, value = instructions[at]
        if code == RETURN:
            if value == ALLOW:
                yield conditions
        elif code == LOAD:
            open_ways.append((at + 1, known.get(value), value, WORD, conditions))
        elif code == MASK:
            concrete = None if loaded is None else loaded & value
            open_ways.append((at + 1, concrete, offset, mask & value, conditions))
        elif code == ALWAYS:
            open_ways.append((at + 1 + value, loaded, offset, mask, conditions))
        elif loaded is not None:
            jump = if_so if COMPARISONS[code](loaded, value) else if_not
            open_ways.append((at + 1 + jump, loaded, offset, mask, conditions))
        else:
            for jump, holds in ((if_not, False), (if_so, True)):
                argument, high = divmod(offset - ARGUMENTS, 8)
                one = Condition(argument, bool(high), mask, code, value, holds)
                if replace(one, holds=not holds) not in conditions:
                    kept = conditions if one in conditions else (*conditions, one)
                    open_ways.append((at + 1 + jump, None, offset, mask, kept))
