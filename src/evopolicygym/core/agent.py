"""An agent: what it may use, the addresses it is given, the workspace it works in, and how a turn of it ended.

An allowance is what its user lets it use of models, money and time before it is ended; limits are what its program may
use of this machine. The budget of episodes is the task's (``core/task.py``).
"""

import math
import socket
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from threading import Event
from typing import Any, Protocol, runtime_checkable

from evopolicygym.core.errors import UsageError

PER = 1_000_000
"""Tokens that a price is for."""


@dataclass(frozen=True, slots=True)
class Rates:
    """US dollars for a million tokens each."""

    input: float
    """What goes in, and was neither read from a cache nor written to one."""
    output: float
    """What comes out, reasoning included."""
    cached_input: float | None = None
    """Input that was read from a cache; None: as other input."""
    cache_write: float | None = None
    """Input that was written to a cache; None: as other input."""

    def __post_init__(self) -> None:
        """Refuse what is no price."""
        for rate in (self.input, self.output, self.cached_input, self.cache_write):
            if rate is not None and not (math.isfinite(rate) and rate >= 0):
                raise UsageError(f"A price of {rate} USD for a million tokens was given; it must be a number from 0.")


@dataclass(frozen=True, slots=True)
class Tier:
    """Rates that hold for a whole request whose input is longer than so many tokens."""

    above: int
    rates: Rates


@dataclass(frozen=True, slots=True)
class PriceSnapshot:
    """The price of one model at one time; it doesn't change while a run lasts, nor when it is read years later."""

    model: str
    source: str
    """Where it is from, with the version, such as ``genai-prices 0.2.3``; ``given`` for one that the user named."""
    date: str
    """When it was looked up, ISO 8601."""
    rates: Rates
    tiers: tuple[Tier, ...] = ()
    """From the shortest to the longest."""
    currency: str = "USD"

    def cost(self, tokens_in: int, cached_input: int, cache_write: int, output: int) -> float:
        """Return what one request costs; ``tokens_in`` is all that went in, cached or not."""
        rates = next((tier.rates for tier in reversed(self.tiers) if tokens_in > tier.above), self.rates)
        fresh = max(0, tokens_in - cached_input - cache_write)
        read = rates.input if rates.cached_input is None else rates.cached_input
        write = rates.input if rates.cache_write is None else rates.cache_write
        return (fresh * rates.input + cached_input * read + cache_write * write + output * rates.output) / PER

    def highest_rates(self, tokens_in: int) -> tuple[float, float]:
        """Return the most that a token in and a token out can cost, in a request with at most so much input."""
        rates = [self.rates, *(tier.rates for tier in self.tiers if tokens_in > tier.above)]
        of_input = max(max(one.input, one.cached_input or 0.0, one.cache_write or 0.0) for one in rates)
        return of_input / PER, max(one.output for one in rates) / PER


OUTSIDE = "outside"
"""The name of every agent that is not started by a run but asks the judge from outside."""
SHELL = "shell"
"""The name of the agent that is the user at a shell in the run's workplace."""
INTERACTIVE = "interactive"
"""The option of a ``command`` agent whose program has the user's terminal."""
INSPECT = "inspect_ai"
"""The name of every agent that Inspect AI drives."""
MODEL_LOG = "model.jsonl"
"""The log of an agent's requests to its model, beside its transcript."""
CONVERSATION = "conversation.json"
"""The file that names the conversation that an agent's tool is in, beside its transcript."""
SYSTEM, NOTES = "system", "notes"
"""The directories of a workspace that are the agent's to write: the policy project, and its own notes."""
IN_WORKSPACE = frozenset(
    {"AGENTS.md", "CLAUDE.md", "GEMINI.md", "QWEN.md", "judge", "judge_client", SYSTEM, NOTES, "feedback"}
)
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
class AllowanceUse:
    """What an agent has used in its turns so far."""

    cost: float = 0.0
    """US dollars, as far as they are known or assumed."""
    tokens: int = 0
    """Input and output together, as its model proxy counts, with what it assumes where a server reported nothing."""
    seconds: float = 0.0
    """Wall time of its turns."""
    turns: int = 0

    def __add__(self, other: "AllowanceUse") -> "AllowanceUse":
        """Return what both used together."""
        return AllowanceUse(
            self.cost + other.cost, self.tokens + other.tokens, self.seconds + other.seconds, self.turns + other.turns
        )


def used_of(usage: Mapping[str, float], seconds: float = 0.0, turns: int = 0) -> AllowanceUse:
    """Return what a turn used, by the names that a model proxy has for it."""
    cost = usage.get("cost", 0.0) + usage.get("assumed_cost", 0.0)
    tokens = usage.get("input", 0) + usage.get("output", 0) + usage.get("assumed_tokens", 0)
    return AllowanceUse(cost, int(tokens), seconds, turns)


@dataclass(frozen=True, slots=True)
class Allowance:
    """What an agent may use in all its turns together; None is without limit."""

    cost: float | None = None
    tokens: int | None = None
    seconds: float | None = None
    turns: int | None = None

    def __post_init__(self) -> None:
        """Refuse an allowance under which nothing could be done."""
        for name, amount in self._given():
            if not (math.isfinite(amount) and amount > 0):
                raise UsageError(f"Invalid limit of {name}: expected a number above 0, got {amount:g}.")

    @property
    def asks_usage(self) -> bool:
        """Whether it can only be kept where an agent's model is asked through a proxy that counts."""
        return self.cost is not None or self.tokens is not None

    def spent(self, used: AllowanceUse) -> str:
        """Return in a sentence which limit is reached; empty where none is."""
        for name, amount in self._given():
            if getattr(used, name) >= amount:
                return reached(name, amount)
        return ""

    def left(self, used: AllowanceUse) -> "Allowance":
        """Return what is left of it; it must not be spent."""
        return Allowance(**{name: amount - getattr(used, name) for name, amount in self._given()})

    def _given(self) -> list[tuple[str, float]]:
        named = ((field.name, getattr(self, field.name)) for field in fields(self))
        return [(name, amount) for name, amount in named if amount is not None]


def reached(name: str, amount: float) -> str:
    """Return in a sentence that a limit is reached."""
    shown = f"{amount:,.2f} USD" if name == "cost" else f"{amount:,.15g} {name}"
    return f"the limit of {shown} is reached"


@dataclass(frozen=True, slots=True)
class AgentRules:
    """What an agent is held to besides its allowance."""

    max_turns: int | None = None
    """How often it is asked to go on while budget is left; None where nobody asks it."""
    quiet_s: float | None = None
    """Seconds after which it is ended where nothing of it moves; None without such a limit."""


NO_RULES = AgentRules()


def rules_of(agent: "Agent") -> AgentRules:
    """Return what an agent says that it is held to."""
    return AgentRules(agent.max_turns, getattr(agent, "quiet_s", None))


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
    """Of its program as it was when the run began: the files that its command names, a function's source, or the module
    that ``package.module:make`` names. Empty where it has none."""

    @property
    def has_terminal(self) -> bool:
        """Whether the user's terminal is its own while it plays."""
        return self.name == SHELL or bool(self.options.get(INTERACTIVE))

    @property
    def resumed_by(self) -> str:
        """The words after ``evopolicygym`` by which a run of its is resumed, before the run's name."""
        return "serve --resume" if self.name == OUTSIDE else "resume"

    @property
    def entry(self) -> str:
        """What its runs go by in tables."""
        return entry_of(self.name, self.model, self.effort, self.command, self.label)


def entry_of(name: str, model: str = "", effort: str = "", command: Sequence[str] = (), label: str = "") -> str:
    """Return what an agent's runs go by in tables: name, model, effort and program, as far as it has these.

    A label stands in place of the name and the program; that an agent was outside is always said.
    """
    program = f"({' '.join(command)})" if command and not label else ""
    outside = f"({OUTSIDE})" if name == OUTSIDE and label else ""
    return " ".join(part for part in (label or name, model, effort, program, outside) if part)


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

    def serve(self, listener: socket.socket, hosts: Collection[str] = ()) -> JudgeAddress:
        """Answer on a listening socket besides, such as one made in a sandbox's network; return where it is.

        ``hosts`` are names other than this machine's by which requests may call it.
        """


@dataclass(frozen=True, slots=True)
class Workspace:
    """Where an agent works."""

    directory: Path
    """Holds ``AGENTS.md``, ``judge``, ``system/``, ``notes/`` and ``feedback/``."""
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
        return self.transcript.with_name(MODEL_LOG)

    @property
    def home(self) -> Path:
        """The directory that is the home of an agent's program where that is to outlive a turn."""
        return self.directory.with_name("home")

    @property
    def conversation(self) -> Path:
        """The file that tells in which conversation an agent's tool is, kept where the tool can't write."""
        return self.transcript.with_name(CONVERSATION)

    @property
    def system(self) -> Path:
        """The policy project."""
        return self.directory / SYSTEM


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
class EnvironmentSpecificAgent(Protocol):
    """An agent that can't play every environment."""

    def refuse(self, environment: str) -> None:
        """Raise ``UsageError`` where it can't play the environment of this name, or its program is missing.

        Called before a run is opened, and before one is resumed whose agent plays on.
        """


@runtime_checkable
class ForgetfulAgent(Protocol):
    """An agent that asks a model and can play each turn as a new conversation."""

    forgets: bool
    """Whether a turn in a new workspace, with a new home, has nothing of earlier turns."""


@runtime_checkable
class ProgramAgent(Protocol):
    """An agent that starts a program, so that a run needs an isolation that keeps programs in."""

    starts_program: bool
