"""The contract of what keeps an agent's program in: what is started, what comes of it, and who starts it.

A backend's ``program_sandbox`` returns one. What a program's end means is not described here; the agents say that.
"""

import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from evopolicygym.core.agent import AgentLimits

JUDGE_PORT, MODEL_PORT = 8700, 8701
"""Where the judge and the model answer inside a sandbox that has a network of its own."""
Serve = Callable[[socket.socket], Mapping[str, str]]
"""Answers on a listening socket; returns the environment variables by which a program finds it."""


@dataclass(frozen=True, slots=True)
class Program:
    """What is started, and what it may use."""

    command: Sequence[str]
    workspace: Path
    limits: AgentLimits
    home: Path | None = None
    """A directory of this machine that is its home; None for a home that is gone with the program."""
    simulators: Sequence[str] = ()
    """Modules that it may not import besides those that no agent may, by their names or paths."""
    packages: Sequence[str] = ()
    """Distributions that its policies may import, so that it may too."""


class RunningProgram(Protocol):
    """A program at work, with all that it starts."""

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        """What was started; the program's stdout and stderr come out of its ``stdout``."""

    @property
    def findings(self) -> Mapping[str, str]:
        """What was found to keep it in, by name."""

    def over(self) -> str:
        """Return in a sentence which limit it passed; empty where none. Asked a few times a second."""

    def leave(self, grace_s: float) -> None:
        """Ask it to end, kill what is left after the grace, and return once nothing of it runs.

        Raises ``SandboxError`` where something of it can't be ended.
        """


class ProgramSandbox(Protocol):
    """Starts an agent's program and keeps it in."""

    @property
    def python(self) -> str:
        """How a command calls a Python in there."""

    def preflight(self, program: Program, hidden: Sequence[Path]) -> Mapping[str, str]:
        """Look around before a program does; return what was found, nothing where nothing is hidden.

        Raises ``SandboxError`` where the program isn't there, or would see what it must not: a path of ``hidden``.
        """

    def start(self, program: Program, endpoints: Mapping[int, Serve]) -> RunningProgram:
        """Start a program; whatever answers it is served on sockets that are made where the program reaches them.

        The numbers are their ports where the sandbox has a network of its own. Raises ``SandboxError`` where the
        program can't be started, or not be kept in as it should.
        """
