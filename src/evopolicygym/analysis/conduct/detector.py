"""A detector, the material that it reads, and the findings that it yields.

A detector is a file of ``detectors/`` that defines ``DETECTOR``, an entry point of the group
``evopolicygym.detectors``, or ``package.module:ATTRIBUTE``. The material of a run is the agent's shell commands, tool
calls and programs, wherever they come from.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any

from evopolicygym.core.registry import Registry
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


MOST_PROGRAM_BYTES_IN_ALL = 4 << 20
"""Of one run."""


@dataclass(frozen=True, slots=True)
class AgentCommand:
    """One simple command of a shell, as an agent's tool was given it or a program of the agent's passes it on."""

    words: tuple[str, ...]
    """The program's name and its arguments, without quotes; what a shell would put in stays as it is written."""
    place: Place
    text: str
    """As it was written."""
    directory: str = ""
    """In which it runs: below the workspace, or absolute; empty for the workspace itself."""

    @property
    def name(self) -> str:
        """The program's name without directories."""
        return self.words[0].rsplit("/", 1)[-1] if self.words else ""

    @property
    def arguments(self) -> tuple[str, ...]:
        """What follows the name."""
        return self.words[1:]


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A call of a tool that is no shell: reading a file, fetching a page."""

    name: str
    arguments: Mapping[str, Any]
    place: Place


@dataclass(slots=True)
class Material:
    """What an agent did and left, as far as the record holds it."""

    commands: list[AgentCommand] = field(default_factory=list)
    tools: list[ToolUse] = field(default_factory=list)
    programs: list[AgentProgram] = field(default_factory=list)
    data: dict[str, str] = field(default_factory=dict)
    """Data files of the policy project, by their paths in it: the beginnings of their texts."""
    roots: tuple[str, ...] = ("/workspace",)
    """Under which names the workspace was known to the agent."""
    notes: list[str] = field(default_factory=list)
    """What could not be read, and why."""
    _known: set[tuple[str, str, str]] = field(default_factory=set)
    _left: int = MOST_PROGRAM_BYTES_IN_ALL

    def add(self, program: AgentProgram) -> None:
        """Add a program; one that is known with the same use, or is beyond what is read of a run, is left out."""
        key = (program.text, program.use, program.language)
        if key in self._known:
            return
        self._known.add(key)
        self._left -= len(program.text)
        if self._left < 0:
            self.note("programs beyond 4 MiB were left out")
        else:
            self.programs.append(program)

    def note(self, text: str) -> None:
        """Note once what could not be read."""
        if text not in self.notes:
            self.notes.append(text)


PACKAGES = frozenset(
    {
        "gymnasium",
        "gym",
        "minigrid",
        "gym_minigrid",
        "highway_env",
        "mujoco",
        "mujoco_py",
        "dm_control",
        "Box2D",
        "box2d",
    }
    | {"pybullet", "pymunk", "ale_py", "atari_py", "evopolicygym", "brax", "gymnax", "envpool", "pufferlib", "procgen"}
    | {"gymnasium_robotics", "flappy_bird_gymnasium", "gym_pusht", "jumanji"}
)
"""Names by which Python imports them."""
WORDS = re.compile(
    r"(?<![a-z])(?:gymnasium|gym|minigrid|highway[-_]?env|mujoco|dm[-_]control|box2d|pybullet|pymunk|ale[-_]py|atari|"
    r"evopolicygym|brax|gymnax|envpool|pufferlib|procgen|jumanji|farama)(?![a-z])",
    re.IGNORECASE,
)


def named(texts: Iterable[str]) -> str:
    """Return the first simulator that is named in texts; empty where none is."""
    return next((found.group() for text in texts if (found := WORDS.search(text))), "")


def is_simulator(module: str) -> bool:
    """Return whether a dotted name of Python's is of a simulator's package."""
    return module.partition(".")[0] in PACKAGES


DETECTORS = Registry(
    kind="detector",
    package="evopolicygym.analysis.conduct.detectors",
    group="evopolicygym.detectors",
    attribute="DETECTOR",
)


@dataclass(frozen=True, slots=True)
class Detector:
    """One kind of finding."""

    about: str
    """What it looks for, in a line."""
    look: Callable[[Material], Iterator[ConductFinding]]
    """Yields what it found, in the order of the material."""
