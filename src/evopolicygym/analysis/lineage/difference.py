"""How far two programs are apart: the share of their lines of code that differ, then their words of data.

Lines are counted as a multiset, so that where one stands doesn't matter. Comments, empty lines and blanks are passed
over. It is a share of both programs' lines, so that a new program is not nearest to whichever is shortest. Programs
that differ in nothing but their names and order are not apart at all.
"""

from collections import Counter
from dataclasses import dataclass

from evopolicygym.analysis.lineage.program import PolicyProgram


@dataclass(frozen=True, slots=True, order=True)
class Difference:
    """How far two programs are apart; compared by the share, then by words."""

    share: float
    """Of the lines of both that the other lacks: 0 where all are the same, 1 where none is."""
    words: int
    """Of data that one has and the other lacks; a file that is too large to be compared counts as one."""
    lines: int
    """Of code that one has and the other lacks; one that changed counts twice, as it went and came."""


def difference(one: PolicyProgram, other: PolicyProgram) -> Difference:
    """Return how far two programs are apart."""
    if one.content == other.content:
        return Difference(0.0, 0, 0)
    lines = 0 if one.code is other.code else _apart(one.code.lines, other.code.lines)
    both = one.code.lines.total() + other.code.lines.total()
    return Difference(lines / both if both else 0.0, _words(one, other), lines)


def _words(one: PolicyProgram, other: PolicyProgram) -> int:
    changed = {path for path, _ in one.files ^ other.files} & (one.data.keys() | other.data.keys())
    return sum(max(1, _apart(one.data.get(path, Counter()), other.data.get(path, Counter()))) for path in changed)


def _apart(one: Counter[bytes], other: Counter[bytes]) -> int:
    return (one - other).total() + (other - one).total()
