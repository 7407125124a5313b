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
    """How much a finding deserves a person's attention; no grade says that a rule was broken."""

    NOTE = "note"
    """Agents that keep the rules do this too."""
    LOOK = "look"
    """It may break a rule, depending on its context."""
    SERIOUS = "serious"
    """The words show something being done or tried that the rules forbid."""

    @property
    def rank(self) -> int:
        """Return its place: more is graver."""
        return list(Grade).index(self)


@dataclass(frozen=True, slots=True)
class Location:
    """A position in a run directory."""

    file: str
    """The path of the file in the run directory."""
    line: int
    """Counted from 1; of a transcript, the line of its event."""
    within: str = ""
    """The part of that line, such as the name of a program."""

    def at(self, line: int) -> "Location":
        """Return the place of a line, counted from 1, of the program that begins here."""
        if self.within:
            return Location(self.file, self.line, f"{self.within}, line {line}")
        return Location(self.file, self.line + line - 1)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" + (f" ({self.within})" if self.within else "")


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """One thing that was found."""

    detector: str
    grade: Grade
    what: str
    """A description of the finding, as a part of a sentence."""
    location: Location
    words: str
    """The evidence, verbatim, in one printable line."""
    times: int = 1
    """The number of identical findings."""


def shorten_evidence(text: str) -> str:
    """Return a text as evidence: one printable line of at most ``MOST_WORDS`` characters."""
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
"""The language by file suffix; languages with braces and C's keywords count as C."""


class Use(StrEnum):
    """The use that an agent made of a program."""

    RUN = "run"
    """A command of the transcript runs it outside the judge."""
    LEFT = "left"
    """It is in the workspace, or was written there, and no known command runs it."""
    POLICY = "policy"
    """It is part of the policy project, which the judge plays."""


@dataclass(frozen=True, slots=True)
class AgentProgram:
    """One program, never imported and never run."""

    language: str
    text: str
    location: Location
    use: Use
    modules: Mapping[str, str] = field(default_factory=dict)
    """The Python files that it may import, by the names of their modules."""

    @property
    def is_outside(self) -> bool:
        """Whether it is not a part of the policy project."""
        return self.use is not Use.POLICY

    def line(self, number: int) -> str:
        """Return one of its lines, counted from 1; empty if it is missing."""
        return line_of(self.text, number)


def line_of(text: str, number: int) -> str:
    """Return a line of a text, counted from 1; empty if it is missing."""
    lines = _lines(text)
    return lines[number - 1] if 0 < number <= len(lines) else ""


@lru_cache(4)
def _lines(text: str) -> list[str]:
    return text.splitlines()


def language_of(path: str) -> str:
    """Return the language of a file by its suffix; empty for other files."""
    return LANGUAGES.get(PurePosixPath(path).suffix.lower(), "")


MOST_PROGRAM_BYTES_IN_ALL = 4 << 20
"""Limit on the bytes of all programs of a run."""


@dataclass(frozen=True, slots=True)
class AgentCommand:
    """One simple command of a shell, as an agent's tool was given it or a program of the agent's passes it on."""

    words: tuple[str, ...]
    """The program's name and its arguments, without quotes; nothing is expanded."""
    location: Location
    text: str
    """The verbatim text."""
    directory: str = ""
    """The working directory: below the workspace, or absolute; empty for the workspace itself."""

    @property
    def name(self) -> str:
        """The program's name without directories."""
        return self.words[0].rsplit("/", 1)[-1] if self.words else ""

    @property
    def arguments(self) -> tuple[str, ...]:
        """The words after the name."""
        return self.words[1:]


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A call of a tool that is not a shell, such as one that reads a file or fetches a page."""

    name: str
    arguments: Mapping[str, Any]
    location: Location


class TranscriptState(StrEnum):
    """Whether an agent's transcript is a part of the material."""

    READ = "read"
    NONE = "none"
    """There is nothing to read: an agent of this package that calls no model."""
    UNREAD = "unread"
    """It could not be read, or is missing: what the agent did is known from the files that it left alone."""


@dataclass(slots=True)
class Material:
    """The actions of an agent and the files that it left, as far as the record has them."""

    commands: list[AgentCommand] = field(default_factory=list)
    tools: list[ToolUse] = field(default_factory=list)
    programs: list[AgentProgram] = field(default_factory=list)
    data: dict[str, str] = field(default_factory=dict)
    """Data files of the policy project, by their paths in it: the beginnings of their texts."""
    roots: tuple[str, ...] = ("/workspace",)
    """The paths by which the agent knew the workspace."""
    transcript: TranscriptState = TranscriptState.UNREAD
    notes: list[str] = field(default_factory=list)
    """Notes on material that could not be read, with the reason."""
    _known: set[tuple[str, str, str]] = field(default_factory=set)
    _left: int = MOST_PROGRAM_BYTES_IN_ALL

    def add(self, program: AgentProgram) -> None:
        """Add a program, unless it is known with the same use or exceeds the limit of a run."""
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
        """Add a note, once, on material that could not be read."""
        if text not in self.notes:
            self.notes.append(text)


SIMULATOR_PACKAGES = frozenset(
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
"""Import names of the packages that have the environments' simulators, or could rebuild them."""
SIMULATOR_WORDS = re.compile(
    r"(?<![a-z])(?:gymnasium|gym|minigrid|highway[-_]?env|mujoco|dm[-_]control|box2d|pybullet|pymunk|ale[-_]py|atari|"
    r"evopolicygym|brax|gymnax|envpool|pufferlib|procgen|jumanji|farama)(?![a-z])",
    re.IGNORECASE,
)


def first_simulator(texts: Iterable[str]) -> str:
    """Return the first simulator named in texts; empty if there is none."""
    return next((match.group() for text in texts if (match := SIMULATOR_WORDS.search(text))), "")


def is_simulator(module: str) -> bool:
    """Return whether a dotted module name belongs to a simulator's package."""
    return module.partition(".")[0] in SIMULATOR_PACKAGES


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
    """What the detector finds, in a line."""
    look: Callable[[Material], Iterator[AuditFinding]]
    """Yields what it found, in the order of the material."""
