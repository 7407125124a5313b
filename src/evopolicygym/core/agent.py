"""An agent's words: the addresses it is given, the workspace it works in, and how a turn of it ended."""

import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from threading import Event
from typing import Any, Protocol, runtime_checkable

from evopolicygym.core.allowance import Allowance
from evopolicygym.core.price import PriceSnapshot

IN_WORKSPACE = frozenset({"AGENTS.md", "CLAUDE.md", "GEMINI.md", "QWEN.md", "judge", "system", "feedback"})
"""What lies in every workspace: in a command, a path that begins so is one there."""


class AgentEnd(StrEnum):
    """How one turn of an agent ended."""

    FINISHED = "finished"
    """It ended by itself."""
    STOPPED = "stopped"
    """It was stopped: the run closed, or its time was up."""
    CRASHED = "crashed"
    """It raised, or its program exited with an error."""
    GAVE_UP = "gave_up"
    """It ended by itself, with budget left and nothing submitted in this turn."""
    HUNG = "hung"
    """It was ended, as nothing had moved for long."""
    LIMITED = "limited"
    """Its model's server would take no more requests for now."""
    UNAUTHORIZED = "unauthorized"
    """Its model's server didn't accept the key."""
    UNAVAILABLE = "unavailable"
    """Its model's server kept failing, or didn't answer."""
    ALLOWANCE_SPENT = "allowance_spent"
    """It was ended: a limit that its user had set is reached."""

    @property
    def pauses(self) -> bool:
        """Whether it says nothing of the agent: the run is stopped, to be resumed once fixed."""
        return self in {AgentEnd.LIMITED, AgentEnd.UNAUTHORIZED, AgentEnd.UNAVAILABLE}


@dataclass(frozen=True, slots=True)
class AgentLimits:
    """What an agent's program may use of this machine, with all that it starts. Above one it fails or is ended."""

    memory_mb: int = 8192
    """MiB of memory; at most three quarters of the machine's."""
    processes: int = 4096
    """Processes and threads."""
    scratch_mb: int = 2048
    """MiB in its home, and as many in ``/tmp``."""
    system_mb: int = 1024
    """MiB in ``system/``, and the most that a single file may have anywhere."""
    system_files: int = 50_000
    """Files and directories in ``system/``."""


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """Which agent plays. No key or token is ever in here."""

    name: str
    model: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    command: tuple[str, ...] = ()
    """The program of a ``command`` agent, with its arguments."""
    effort: str = ""
    """The reasoning effort of its model, in the word that the agent's tool or the model's server has for it."""
    allowance: Allowance = field(default_factory=Allowance)
    """What its user lets it use."""
    label: str = ""
    """What its user calls it, in place of its name and its command."""
    program_sha256: str = ""
    """Of the files that its command names, as they were when the run began; empty where it names none."""

    @property
    def entry(self) -> str:
        """What its runs go by in tables."""
        return entry_of(self.name, self.model, self.effort, self.command, self.label)


def entry_of(name: str, model: str = "", effort: str = "", command: Sequence[str] = (), label: str = "") -> str:
    """Return what an agent's runs go by in tables: name, model, effort and program, as far as it has these.

    A label stands in place of the name and the program.
    """
    program = f"({' '.join(command)})" if command and not label else ""
    return " ".join(part for part in (label or name, model, effort, program) if part)


@dataclass(frozen=True, slots=True)
class JudgeAddress:
    """Where the judge answers."""

    base_url: str
    """With the run's token in its path, without a slash at the end."""

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables by which an agent's program finds the judge."""
        return {
            "EVOPOLICYGYM_INFO_URL": f"{self.base_url}/info",
            "EVOPOLICYGYM_TASK_URL": f"{self.base_url}/task",
            "EVOPOLICYGYM_SUBMIT_URL": f"{self.base_url}/submit",
        }


class JudgeEndpoint(Protocol):
    """The judge's endpoint, as an agent is shown it."""

    @property
    def address(self) -> JudgeAddress:
        """Where the judge answers on this machine's loopback."""

    def serve(self, listener: socket.socket) -> JudgeAddress:
        """Answer on a listening socket besides, such as one made in a sandbox's network; return where it is."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """Where an agent works."""

    directory: Path
    """Holds ``AGENTS.md``, ``judge``, ``system/`` and ``feedback/``."""
    transcript: Path
    """The file that an agent's program prints into."""
    seed: int
    """Of the run: what an agent that draws at random starts from."""
    isolation: str
    """The isolation, as the record names it, at which an agent's program is to be kept in."""
    left: Allowance = field(default_factory=Allowance)
    """What is left of the agent's allowance for this turn. Cost and tokens are the agent's to keep, at its model's
    endpoint; time and turns are kept for it."""
    price: PriceSnapshot | None = None
    """What its model costs, where that is known."""
    simulators: tuple[str, ...] = ()
    """Modules by which its environment could be played without being counted, besides those that no agent may have: by
    their names, or by the absolute paths of their files and packages."""
    report: Callable[[Mapping[str, float]], None] = lambda _usage: None
    """Called, from any thread, with what has gone through the model proxy in this turn, whenever that grows."""
    policy_packages: tuple[str, ...] = ()
    """Distributions that policies may import besides those that all may; its program can import them too."""

    @property
    def model_log(self) -> Path:
        """The file that gets a line for each request to a model."""
        return self.transcript.with_name("model.jsonl")

    @property
    def home(self) -> Path:
        """The directory that is the home of an agent's program where that is to outlive a turn."""
        return self.directory.with_name("home")

    @property
    def conversation(self) -> Path:
        """The file that tells in which conversation an agent's tool is, kept where the tool can't write."""
        return self.transcript.with_name("conversation.json")

    @property
    def system(self) -> Path:
        """The policy project."""
        return self.directory / "system"


@dataclass(frozen=True, slots=True)
class Turn:
    """How one turn of an agent went."""

    end: AgentEnd
    message: str = ""
    """What a person would want to know of it, in a line; empty where there is nothing to say."""
    usage: Mapping[str, float] = field(default_factory=dict)
    """What went through its model proxy: requests, tokens, seconds, by name; empty where it had none."""
    findings: Mapping[str, str] = field(default_factory=dict)
    """What was found to keep the agent in, by name; empty for an agent of ours that needs no keeping."""
    tool_usage: Mapping[str, float] = field(default_factory=dict)
    """What the agent's own tool says that it used, as that tool counts; empty where it says nothing."""


class Agent(Protocol):
    """A player. It knows an endpoint and a workspace, nothing else."""

    max_turns: int
    """How often it is asked to go on while budget is left."""

    def play(self, workspace: Workspace, endpoint: JudgeEndpoint, stop: Event) -> Turn:
        """Play one turn, until there is no more to do or ``stop`` is set; leave no process behind.

        A turn may be played again after a crash of the whole run: what was submitted then is still there, and asking
        again with the same key charges nothing.
        """


@runtime_checkable
class Particular(Protocol):
    """An agent that can't play every environment."""

    def refuse(self, environment: str) -> None:
        """Raise ``UsageError`` where it can't play the environment of this name; asked before a run is opened."""


@runtime_checkable
class ProgramAgent(Protocol):
    """An agent that starts a program, so that a run needs an isolation that keeps programs in."""

    starts_program: bool
