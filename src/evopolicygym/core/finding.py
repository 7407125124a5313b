"""A finding: one thing that a check or an audit looked at, and what it came to. It is printed elsewhere."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was checked."""

    name: str
    ok: bool
    """Whether it passed. What was not promised passes whatever came of it."""
    detail: str = ""
    """What was seen, or what is wrong and what would work."""
    title: str = ""
    """What was tried, in words, where the name is an id."""
    verdict: str = ""
    """What came of it in a word or two, where ``ok`` and ``FAILED`` don't say it."""
    promised: bool = True
    """Whether it had to hold."""
    settled_by_replay: bool = False
    """Whether it fails only because files were left out that playing held-out cases again stands for."""
    more: Mapping[str, object] = field(default_factory=dict)
    """What a program may want to know besides, by name, as JSON has it."""
