"""Agents: configuration, allowance and limits, the judge's address, the workspace, and the result of a turn.

An allowance limits what an agent uses of models, money and time; ``AgentLimits`` limit what its program uses of the
machine. The episode budget belongs to the task (``core/task.py``).
"""

import math
import re
import socket
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from threading import Event
from typing import Any, Protocol, runtime_checkable
from urllib.parse import urlsplit

from evopolicygym.core.errors import UsageError
from evopolicygym.judge_client.address import ADDRESS_FILE, JudgeAddress

PER = 1_000_000
"""Prices are for so many tokens."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Prices in US dollars for a million tokens."""

    input: float
    """Input that was neither read from a cache nor written to one."""
    output: float
    """Output, including reasoning."""
    cached_input: float | None = None
    """Input read from a cache; None means the price of other input."""
    cache_write: float | None = None
    """Input written to a cache; None means the price of other input."""

    def __post_init__(self) -> None:
        """Validate the prices; raise ``UsageError``."""
        for rate in (self.input, self.output, self.cached_input, self.cache_write):
            if rate is not None and not (math.isfinite(rate) and rate >= 0):
                raise UsageError(
                    f"Invalid price: expected a finite number of USD of at least 0 for a million tokens, got {rate}."
                )


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Tokens by the kinds that have a price of their own."""

    input: float
    """All input, cached or not."""
    output: float
    """All output, including reasoning."""
    cached_input: float = 0.0
    """The part of the input that was read from a cache."""
    cache_write: float = 0.0
    """The part of the input that was written to a cache."""

    def scaled(self, factor: float) -> "TokenCounts":
        """Return the counts multiplied by a factor."""
        return TokenCounts(*(factor * count for count in astuple(self)))


@dataclass(frozen=True, slots=True)
class Tier:
    """Rates of a request whose input has more than ``above`` tokens."""

    above: int
    rates: Rates


@dataclass(frozen=True, slots=True)
class PriceSnapshot:
    """The price of a model, as it was when a run was opened."""

    model: str
    source: str
    """The source with its version, such as ``genai-prices 0.2.3``; ``given`` if the user set the price."""
    date: str
    """The date of the lookup, ISO 8601."""
    rates: Rates
    tiers: tuple[Tier, ...] = ()
    """Sorted by ``above``, ascending."""
    currency: str = "USD"

    @property
    def terms(self) -> tuple[Rates, tuple[Tier, ...], str]:
        """What two prices must agree in for costs to be comparable."""
        return self.rates, self.tiers, self.currency

    def cost(self, tokens_in: int, cached_input: int, cache_write: int, output: int) -> float:
        """Return the cost of a request in ``currency``; ``tokens_in`` is all input, cached or not."""
        return self.cost_of_requests(TokenCounts(tokens_in, output, cached_input, cache_write))

    def cost_of_requests(self, tokens: TokenCounts, requests: float = 1) -> float:
        """Return the cost of requests in ``currency`` from their sums; the tier is that of their mean input."""
        mean_input = tokens.input / max(1, requests)
        rates = next((tier.rates for tier in reversed(self.tiers) if mean_input > tier.above), self.rates)
        fresh = max(0, tokens.input - tokens.cached_input - tokens.cache_write)
        read = rates.input if rates.cached_input is None else rates.cached_input
        write = rates.input if rates.cache_write is None else rates.cache_write
        of_input = fresh * rates.input + tokens.cached_input * read + tokens.cache_write * write
        return (of_input + tokens.output * rates.output) / PER

    def highest_rates(self, tokens_in: int) -> tuple[float, float]:
        """Return the highest price of an input token and of an output token, for at most ``tokens_in`` of input."""
        rates = [self.rates, *(tier.rates for tier in self.tiers if tokens_in > tier.above)]
        highest_input = max(max(rate.input, rate.cached_input or 0.0, rate.cache_write or 0.0) for rate in rates)
        return highest_input / PER, max(rate.output for rate in rates) / PER


OUTSIDE = "outside"
"""The name of agents that are not started by a run but connect from outside."""
SHELL = "shell"
"""The name of the agent that is a user at a shell in the agent's sandbox."""
INTERACTIVE = "interactive"
"""The option of a ``command`` agent that gives its program the user's terminal."""
INSPECT = "inspect_ai"
"""The name of agents that Inspect AI drives."""
MODEL_LOG = "model.jsonl"
"""The log of an agent's model requests, next to its transcript."""
CONVERSATION = "conversation.json"
"""The file that stores the id of the conversation of an agent's tool, next to its transcript."""
ANSWERS = "answers"
"""The finding of a turn with the results of its model's answers."""
SYSTEM, NOTES = "system", "notes"
"""The writable directories of a workspace: the policy project, and the agent's notes."""
SKILL, SKILL_ENTRY = "skill", "SKILL.md"
"""The directory of a workspace with the skill that the agent is handed, if any, and the file that it reads first."""
IN_WORKSPACE = frozenset(
    {"AGENTS.md", "CLAUDE.md", "GEMINI.md", "QWEN.md", "judge", "judge_client", SYSTEM, NOTES, "feedback", SKILL}
)
"""The entries of every workspace. In a command, a relative path that begins with one is a path in the workspace."""


class AgentEnd(StrEnum):
    """How a turn of an agent ended."""

    FINISHED = "finished"
    """It ended by itself."""
    STOPPED = "stopped"
    """It was stopped because the run closed or its time was up."""
    CRASHED = "crashed"
    """It raised an exception, or its program exited with an error."""
    GAVE_UP = "gave_up"
    """It ended by itself with budget left, and submitted nothing in this turn."""
    HUNG = "hung"
    """It was ended after a long time without activity."""
    LIMITED = "limited"
    """Its model's server rejected requests because of a rate limit."""
    UNAUTHORIZED = "unauthorized"
    """Its model's server didn't accept the key."""
    UNAVAILABLE = "unavailable"
    """Its model's server failed repeatedly or didn't answer."""
    CONTEXT_EXCEEDED = "context_exceeded"
    """Its conversation became longer than its model's context."""
    KILLED = "killed"
    """Its program was killed from outside, by the machine or an administrator."""
    ALLOWANCE_SPENT = "allowance_spent"
    """It was ended because a limit set by the user was reached."""

    @property
    def pauses(self) -> bool:
        """Whether the cause lies outside the agent: the run is paused and can be resumed."""
        return self in {AgentEnd.LIMITED, AgentEnd.UNAUTHORIZED, AgentEnd.UNAVAILABLE, AgentEnd.KILLED}


@dataclass(frozen=True, slots=True)
class AgentLimits:
    """Resource limits of an agent's program and its child processes; the program fails or is ended above one."""

    memory_mb: int = 8192
    """Memory in MiB; at most three quarters of the machine's."""
    processes: int = 4096
    """Processes and threads."""
    scratch_mb: int = 2048
    """Size of its home in MiB, and of ``/tmp``."""
    system_mb: int = 1024
    """Size of ``system/`` in MiB, and of any single file."""
    system_files: int = 50_000
    """Files and directories in ``system/``."""


@dataclass(frozen=True, slots=True)
class AllowanceUse:
    """What an agent has used so far."""

    cost: float = 0.0
    """US dollars, known or assumed."""
    tokens: int = 0
    """Input and output tokens, counted by the model proxy, which assumes a number if a server reports none."""
    seconds: float = 0.0
    """Wall time of its turns."""
    turns: int = 0

    def __add__(self, other: "AllowanceUse") -> "AllowanceUse":
        """Return the sum of both."""
        return AllowanceUse(
            self.cost + other.cost, self.tokens + other.tokens, self.seconds + other.seconds, self.turns + other.turns
        )


def used_of(usage: Mapping[str, float], seconds: float = 0.0, turns: int = 0) -> AllowanceUse:
    """Return what a turn used, from the usage that a model proxy reports."""
    cost = usage.get("cost", 0.0) + usage.get("assumed_cost", 0.0)
    tokens = usage.get("input", 0) + usage.get("output", 0) + usage.get("assumed_tokens", 0)
    return AllowanceUse(cost, int(tokens), seconds, turns)


LIMITS: Mapping[str, str] = {
    "cost": "max_cost", "tokens": "max_tokens", "seconds": "max_time", "turns": "max_turns",
}  # fmt: skip
"""The options of an agent's limits, by the fields of an allowance."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """Limits on what an agent uses in all turns together; None means no limit."""

    cost: float | None = None
    tokens: int | None = None
    seconds: float | None = None
    turns: int | None = None

    def __post_init__(self) -> None:
        """Validate the limits; raise ``UsageError``."""
        for name, amount in self._given():
            if not (math.isfinite(amount) and amount > 0):
                raise UsageError(f"Invalid limit of {name}: expected a number above 0, got {amount:g}.")

    @property
    def asks_usage(self) -> bool:
        """Whether it limits cost or tokens, which only a model proxy can count."""
        return self.cost is not None or self.tokens is not None

    def spent(self, used: AllowanceUse) -> str:
        """Return a message that names the limit that is reached; empty if none is."""
        for name, amount in self._given():
            if getattr(used, name) >= amount:
                return reached(name, amount)
        return ""

    def left(self, used: AllowanceUse) -> "Allowance":
        """Return what remains; no limit may be reached yet."""
        return Allowance(**{name: amount - getattr(used, name) for name, amount in self._given()})

    @property
    def options(self) -> tuple[str, ...]:
        """The options of the limits that are given."""
        return tuple(LIMITS[name] for name, _ in self._given())

    def __str__(self) -> str:
        """Return the limits by their options, such as ``max_cost 5, max_turns 3``; ``none`` without any."""
        return ", ".join(f"{LIMITS[name]} {amount:.15g}" for name, amount in self._given()) or "none"

    def _given(self) -> list[tuple[str, float]]:
        named = ((field.name, getattr(self, field.name)) for field in fields(self))
        return [(name, amount) for name, amount in named if amount is not None]


UNITS = {"cost": "USD"}
"""The word of a limit in messages, where it isn't its name."""


def reached(name: str, amount: float) -> str:
    """Return the message for a limit that is reached."""
    shown = f"{amount:,.2f}" if name == "cost" else f"{amount:,.15g}"
    return f"the limit of {shown} {UNITS.get(name, name)} is reached"


def limit_reached(message: str) -> str:
    """Return the option of the limit that the message of a turn names (``reached``); empty if it names none."""
    words = set(re.findall(r"[A-Za-z]+", message))
    return next((option for name, option in LIMITS.items() if UNITS.get(name, name) in words), "")


@dataclass(frozen=True, slots=True)
class AgentRules:
    """Restrictions of an agent in addition to its allowance."""

    max_turns: int | None = None
    """How many turns it gets while budget is left; None if it has no turns."""
    quiet_s: float | None = None
    """Seconds without activity after which it is ended; None for no limit."""


NO_RULES = AgentRules()


def rules_of(agent: "Agent") -> AgentRules:
    """Return the rules that an agent declares."""
    return AgentRules(agent.max_turns, getattr(agent, "quiet_s", None))


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """The configuration of an agent. Contains no key or token."""

    name: str
    model: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    command: tuple[str, ...] = ()
    """The program of a ``command`` agent, with its arguments."""
    effort: str = ""
    """The model's reasoning effort, in the terms of the agent's tool or the model's server."""
    allowance: Allowance = field(default_factory=Allowance)
    """Limits set by the user."""
    label: str = ""
    """A name set by the user, shown in place of name and command."""
    program_sha256: str = ""
    """Hash of its program when the run was opened: the files that its command names, a function's source, or the module
    in ``package.module:make``. Empty if it has none."""

    @property
    def has_terminal(self) -> bool:
        """Whether it uses the user's terminal."""
        return self.name == SHELL or bool(self.options.get(INTERACTIVE))

    @property
    def model_server(self) -> str:
        """Host and port of its model's server, without what may be secret; empty if its options name none."""
        try:
            address = urlsplit(str(self.options.get("model_url", "")))
            port = address.port
        except ValueError:
            return ""
        return f"{address.hostname or ''}{f':{port}' if port else ''}"

    @property
    def entry(self) -> str:
        """The name of its entry in tables."""
        return entry_of(self.name, self.model, self.effort, self.command, self.label)


def entry_of(name: str, model: str = "", effort: str = "", command: Sequence[str] = (), label: str = "") -> str:
    """Return the name of an agent's entry in tables: name, model, effort and program, as far as it has these.

    A label replaces the name and the program; the mark of an agent from outside remains.
    """
    program = f"({' '.join(command)})" if command and not label else ""
    outside = f"({OUTSIDE})" if name == OUTSIDE and label else ""
    return " ".join(part for part in (label or name, model, effort, program, outside) if part)


def planned_name(name: str, model: str = "", effort: str = "", label: str = "") -> str:
    """Return what a suite calls an agent: its label, or else ``NAME:MODEL@EFFORT`` without the missing parts."""
    return label or f"{name}{f':{model}' if model else ''}{f'@{effort}' if effort else ''}"


class JudgeEndpoint(Protocol):
    """The judge's endpoint, as agents see it."""

    @property
    def address(self) -> JudgeAddress:
        """The judge's address on the loopback interface."""

    def serve(self, listener: socket.socket, hosts: Collection[str] = ()) -> JudgeAddress:
        """Serve on another listening socket, such as one in a sandbox's network, and return the address.

        ``hosts`` are further host names that requests may use.
        """


@dataclass(frozen=True, slots=True)
class Workspace:
    """The workspace of an agent's turn, and what the turn may use."""

    directory: Path
    """Contains ``AGENTS.md``, ``judge``, ``system/``, ``notes/`` and ``feedback/``."""
    transcript: Path
    """The file that receives the output of an agent's program."""
    seed: int
    """The run's seed, for agents that draw random numbers."""
    isolation: str
    """The sandbox backend of an agent's program, by the name that the run records."""
    left: Allowance = field(default_factory=Allowance)
    """What is left of the allowance. The agent enforces cost and tokens through its model proxy; the run enforces
    time and turns."""
    allowance: Allowance = field(default_factory=Allowance)
    """The whole allowance of the run."""
    price: PriceSnapshot | None = None
    """The price of its model, if known."""
    simulators: tuple[str, ...] = ()
    """Modules that could play the environment uncounted, and that this agent may not import in addition to the modules
    denied to all: names, or absolute paths of files and packages."""
    report: Callable[[Mapping[str, float]], None] = lambda _usage: None
    """Called from any thread with the turn's usage of the model proxy, whenever it grows."""
    policy_packages: tuple[str, ...] = ()
    """Further distributions that policies, and the agent program, may import."""
    model_details: Mapping[str, str] = field(default_factory=dict)
    """What was known of its model when the run was opened."""

    @property
    def model_log(self) -> Path:
        """The log of model requests, one line each."""
        return self.transcript.with_name(MODEL_LOG)

    @property
    def home(self) -> Path:
        """The home of an agent's program, if it must survive a turn."""
        return self.directory.with_name("home")

    @property
    def conversation(self) -> Path:
        """The file that stores the id of the tool's conversation, outside of what the tool can write."""
        return self.transcript.with_name(CONVERSATION)

    @property
    def addresses(self) -> Path:
        """The file with the judge's address while a run is served, outside of what the agent can write.

        A copy for ``./judge`` is in the workspace; only the agent's own programs use that one.
        """
        return self.transcript.with_name(ADDRESS_FILE)

    @property
    def system(self) -> Path:
        """The policy project."""
        return self.directory / SYSTEM


@dataclass(frozen=True, slots=True)
class Turn:
    """The result of a turn of an agent."""

    end: AgentEnd
    message: str = ""
    """One line for people; may be empty."""
    usage: Mapping[str, float] = field(default_factory=dict)
    """Usage of the model proxy: requests, tokens, seconds, by name; empty if there was no proxy."""
    findings: Mapping[str, str] = field(default_factory=dict)
    """What the agent's sandbox enforced, by name; empty for built-in agents without a program."""
    tool_usage: Mapping[str, float] = field(default_factory=dict)
    """Usage as reported by the agent's own tool; empty if it reports none."""
    waiting_s: float = 0.0
    """Seconds for which a request to its model had waited when it was stopped; 0 if none was under way."""


class Agent(Protocol):
    """An agent. It is given an endpoint and a workspace, and nothing else."""

    max_turns: int
    """How many turns it gets while budget is left."""

    def play(self, workspace: Workspace, endpoint: JudgeEndpoint, stop: Event) -> Turn:
        """Play one turn, until the agent is done or ``stop`` is set; leave no process behind.

        After a crash of the run, a turn is played again: earlier submissions remain, and a request with the same key
        charges nothing.
        """


@runtime_checkable
class EnvironmentSpecificAgent(Protocol):
    """An agent that can play only some environments."""

    def refuse(self, environment: str) -> None:
        """Raise ``UsageError`` if the agent can't play this environment, or its program is missing.

        Called before a run is opened, and before one is resumed with turns left.
        """


@runtime_checkable
class InterfaceAgent(Protocol):
    """An agent of the judge's side that plays through an interface which it knows."""

    def know(self, environment: str, interface: Mapping[str, Any]) -> None:
        """Take the name of the run's environment and its interface as data, empty for the standard one.

        Called before its first turn.
        """


@runtime_checkable
class ForgetfulAgent(Protocol):
    """An agent that asks a model and can play each turn as a new conversation."""

    forgets: bool
    """Whether a turn in a new workspace, with a new home, has nothing of earlier turns."""


@runtime_checkable
class OutputReader(Protocol):
    """An agent that says whether it reads what its policies print."""

    reads_output: bool
    """Whether it can't play without."""


@runtime_checkable
class VersionedAgent(Protocol):
    """An agent whose tool, or library, has a version of its own."""

    def tool_version(self, isolation: str) -> str:
        """Return the version; empty where it is unknown. A program is asked in a sandbox of this isolation.

        Called once, before a run is opened.
        """


@runtime_checkable
class ModelAgent(Protocol):
    """An agent that knows which model it asks."""

    def model_details(self) -> Mapping[str, str]:
        """Return what the model's server tells of the model, and the sampling that requests ask for; may be empty.

        Called once, before a run is opened.
        """


@dataclass(frozen=True, slots=True)
class ComparedAnswer:
    """A model's answer as recorded and as given again."""

    recorded: str
    again: str

    @property
    def is_same(self) -> bool:
        """Whether both are equal, byte for byte."""
        return self.recorded == self.again


@runtime_checkable
class ReplayableAgent(Protocol):
    """An agent whose model can be asked again what it was asked in a run."""

    def compare_answers(
        self, lines: Iterable[Mapping[str, Any]], details: Mapping[str, str]
    ) -> Iterator[ComparedAnswer]:
        """Send the requests of a transcript again, in order, and yield each answer beside the recorded one.

        ``lines`` is the transcript, ``details`` what was known of the model. Raises ``UsageError`` if a request can't
        be made again, ``AgentError`` if the server fails.
        """


@runtime_checkable
class ProgramAgent(Protocol):
    """An agent that may start a program, which needs a sandbox backend for programs."""

    starts_program: bool
