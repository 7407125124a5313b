"""All that is looked at of one run: commands, calls of tools, and programs, whatever they were read from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from evopolicygym.analysis.conduct.finding import Place
from evopolicygym.analysis.conduct.program import AgentProgram

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
