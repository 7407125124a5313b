"""One thing that was found in what an agent did: its kind, its grade, and the words that show it."""

from dataclasses import dataclass
from enum import StrEnum

from evopolicygym.core.text import printable

MOST_WORDS = 160
"""Characters of evidence that are kept."""


class Grade(StrEnum):
    """How much a finding deserves a person's reading. None of them says that a rule was broken."""

    NOTE = "note"
    """Agents that keep the rules do this too."""
    LOOK = "look"
    """It could break a rule: whether it did depends on what stands around it."""
    SERIOUS = "serious"
    """The words show something being done or tried that the rules forbid."""

    @property
    def rank(self) -> int:
        """Return its place: more is graver."""
        return list(Grade).index(self)


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands in a run's directory."""

    file: str
    """Below the run's directory."""
    line: int
    """Counted from 1; of a transcript, the line of its event."""
    within: str = ""
    """Of what is held by that line: the name of a program and so on."""

    def at(self, line: int) -> "Place":
        """Return the place of a line, counted from 1, of the program that begins here."""
        if self.within:
            return Place(self.file, self.line, f"{self.within}, line {line}")
        return Place(self.file, self.line + line - 1)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" + (f" ({self.within})" if self.within else "")


@dataclass(frozen=True, slots=True)
class ConductFinding:
    """One thing that was found."""

    detector: str
    grade: Grade
    what: str
    """What was seen, in a sentence's part."""
    place: Place
    words: str
    """The words that show it, as they stand there, in one printable line."""
    times: int = 1
    """How often the same was found."""


def shortened(text: str) -> str:
    """Return words as evidence has them: one line, printable, not longer than ``MOST_WORDS``."""
    line = printable(" ".join(text[: 8 * MOST_WORDS].split()))
    return line if len(line) <= MOST_WORDS else f"{line[: MOST_WORDS - 1]}…"
