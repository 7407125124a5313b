"""A program that an agent wrote: its text, its language, where it stands, and whether it was run outside the judge."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from pathlib import PurePosixPath

from evopolicygym.analysis.conduct.finding import Place

MOST_PROGRAM_BYTES = 1 << 20
"""A longer program is not read."""
LANGUAGES: Mapping[str, str] = {
    ".py": "python",
    ".sh": "shell",
    ".bash": "shell",
    ".js": "javascript",
    ".mjs": "javascript",
    ".ts": "javascript",
    ".c": "c",
    ".cc": "c",
    ".cpp": "c",
    ".h": "c",
    ".hpp": "c",
    ".rs": "c",
    ".go": "c",
    ".java": "c",
    ".pl": "perl",
}
"""By the suffix of a file's name; languages with braces and the words of C are one."""


class Use(StrEnum):
    """What an agent did with a program."""

    RUN = "run"
    """A command of the transcript runs it outside the judge."""
    LEFT = "left"
    """It was written or lies in the workspace; no command is known that runs it."""
    POLICY = "policy"
    """It is part of the policy project, which the judge plays."""


@dataclass(frozen=True, slots=True)
class AgentProgram:
    """One program, never imported and never run."""

    language: str
    text: str
    place: Place
    use: Use
    modules: Mapping[str, str] = field(default_factory=dict)
    """The Python files that it may import, by the names of their modules."""

    @property
    def is_outside(self) -> bool:
        """Whether it is no part of what the judge plays."""
        return self.use is not Use.POLICY

    def line(self, number: int) -> str:
        """Return one of its lines, counted from 1; empty where there is none."""
        return line_of(self.text, number)


def line_of(text: str, number: int) -> str:
    """Return a line of a text, counted from 1; empty where there is none."""
    lines = _lines(text)
    return lines[number - 1] if 0 < number <= len(lines) else ""


@lru_cache(4)
def _lines(text: str) -> list[str]:
    return text.splitlines()


def language_of(path: str) -> str:
    """Return the language of a file by its name; empty where it is none that is read."""
    return LANGUAGES.get(PurePosixPath(path).suffix.lower(), "")
