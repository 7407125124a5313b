"""Reads a compiled filter of system calls back: the calls that it allows, with the conditions on their arguments."""

import ctypes
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from operator import and_, eq, ge, gt
from struct import iter_unpack

from evopolicygym.sandbox.libseccomp import ALLOW, LIBRARY

LOAD, ALWAYS, EQUAL, GREATER, AT_LEAST, ANY_BIT, MASK, RETURN = 0x20, 0x05, 0x15, 0x25, 0x35, 0x45, 0x54, 0x06
COMPARISONS = {EQUAL: eq, GREATER: gt, AT_LEAST: ge, ANY_BIT: and_}
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16
"""Offsets in the data of a filter, in bytes."""
AUDIT_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
MOST_CALLS = 1024
"""More system calls than any kernel has."""
WORD = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison of 32 bits of an argument, and its required result."""

    argument: int
    high: bool
    mask: int
    comparison: int
    value: int
    holds: bool

    def allows(self, value: int) -> bool:
        """Return whether a value of the argument meets it."""
        word = (value >> 32 if self.high else value) & self.mask
        return bool(COMPARISONS[self.comparison](word, self.value)) is self.holds


@dataclass(frozen=True, slots=True)
class Allowed:
    """One way through the filter: a call's number, and conditions on its arguments."""

    number: int
    conditions: tuple[Condition, ...]

    def values(self, argument: int, offered: Iterable[int]) -> list[int]:
        """Return allowed values of an argument: of those offered, and of those that the conditions imply."""
        own = [condition for condition in self.conditions if condition.argument == argument]
        if not own:
            return list(offered)
        equalities = [condition for condition in own if condition.comparison == EQUAL and condition.holds]
        base = sum(condition.value << 32 * condition.high for condition in equalities)
        fixed = 0
        for condition in equalities:
            fixed |= condition.mask << 32 * condition.high
        free = [1 << bit for bit in range(64) if not fixed >> bit & 1]
        candidates = (*offered, base, *(base | bit for bit in free))
        return [value for value in dict.fromkeys(candidates) if all(condition.allows(value) for condition in own)]


def allowed_calls(program: bytes, machine: str) -> Iterator[Allowed]:
    """Yield every way through a compiled filter for calls of a machine's architecture.

    Ways that differ only in conditions that must not hold count once.
    """
    instructions = list(iter_unpack("<HBBI" if sys.byteorder == "little" else ">HBBI", program))
    for number in range(MOST_CALLS):
        known = {NUMBER: number, ARCHITECTURE: AUDIT_ARCHITECTURES[machine]}
        ways = {tuple(condition for condition in way if condition.holds): way for way in _ways(instructions, known)}
        yield from (Allowed(number, conditions) for conditions in ways.values())


def _ways(instructions: list[tuple[int, int, int, int]], known: dict[int, int]) -> Iterator[tuple[Condition, ...]]:
    """Yield the conditions under which the program returns ALLOW, a tuple for each way through it."""
    # Position in the program; the loaded number, or None and the offset of the loaded word; its mask; the conditions.
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
                condition = Condition(argument, bool(high), mask, code, value, holds)
                if replace(condition, holds=not holds) not in conditions:
                    kept = conditions if condition in conditions else (*conditions, condition)
                    open_ways.append((at + 1 + jump, None, offset, mask, kept))


def call_name(number: int) -> str:
    """Return the name of a system call of this machine; its number as text if libseccomp doesn't know it."""
    library = ctypes.CDLL(LIBRARY)
    library.seccomp_arch_native.restype = ctypes.c_uint32
    resolve = library.seccomp_syscall_resolve_num_arch
    resolve.argtypes, resolve.restype = (ctypes.c_uint32, ctypes.c_int), ctypes.c_char_p  # freed as the program ends
    return (resolve(library.seccomp_arch_native(), number) or str(number).encode()).decode()
