"""Command-line tools as agents: the contract of one, and what all share.

A turn is one call of the tool, and the next goes on in the same conversation. What is particular to a tool is in its
own file, ``agents/builtin/<name>.py``, as a ``Tool``; ``program.py`` runs its program. A turn's end is decided by what
was seen from outside: the exit, the judge's count, and how the model's server answered last. What a tool says of itself
is only quoted.
"""

import json
import os
import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path, PurePosixPath
from threading import Event as Flag
from time import monotonic
from typing import Any, ClassVar

from evopolicygym.agents.base import About, Model, refuse_effort
from evopolicygym.agents.kit.judge_client import JudgeClient
from evopolicygym.agents.kit.model_options import MODEL_OPTIONS, limits_of, upstream_of
from evopolicygym.agents.kit.program import Launch, ProgramEnd, last_words, run_program
from evopolicygym.core import strict_json
from evopolicygym.core.agent import AgentConfig, AgentEnd, AgentLimits, JudgeEndpoint, Turn, Workspace
from evopolicygym.core.errors import UsageError
from evopolicygym.model_proxy.formats import ApiFormat
from evopolicygym.model_proxy.proxy import ModelProxy
from evopolicygym.model_proxy.upstream import ModelAddress, ModelUpstream
from evopolicygym.model_proxy.usage import MOST
from evopolicygym.sandbox.program.view import launched

Event = Mapping[str, Any]
"""A line of JSON that a tool prints."""
MAX_TURNS = 8
QUIET_S = 1800
"""Seconds without any progress after which a tool is ended; longer than a model's server may be silent."""
LINE_BYTES = 4 << 20
"""A longer line of a tool's output is no event that is read."""
MOST_MESSAGE = 300
"""The most characters that are recorded of what a tool says."""
CONVERSATION = re.compile(r"[\w][\w.:-]{0,127}", re.ASCII)
TOOL_OPTIONS = ("program", "max_turns", "quiet_s")
TOO_MUCH, WRONG_KEY, SERVERS_FAULT = {402, 429}, {401, 403}, 500


@dataclass(frozen=True, slots=True)
class ToolTask:
    """What a tool is started for."""

    model: str
    prompt: str
    conversation: str = ""
    """The one that is to go on, by the tool's own name for it; empty for a new one."""


@dataclass(frozen=True, slots=True)
class ToolEvent:
    """What one event of a tool says; empty where it says nothing of the kind."""

    conversation: str = ""
    message: str = ""
    """What the model said last."""
    error: str = ""
    """Why the tool can't go on."""
    usage: Mapping[str, float] = field(default_factory=dict)
    """Tokens by the names of the model proxy (``input`` with ``cached_input``, ``output`` with ``reasoning``)."""
    goes_on: bool = False
    """Whether the message goes on from the one of the event before."""


class Tool(ABC):
    """One command-line tool."""

    program: ClassVar[str]
    """As it is called on the PATH."""
    install: ClassVar[str]
    """The command that installs the version that this was tested with."""
    wire: ClassVar[ApiFormat]
    url: ClassVar[str]
    """Where its model is by default."""
    key: ClassVar[str]
    """The environment variable that holds the key there."""
    usage_adds_up: ClassVar[bool] = False
    """Whether the usage of all events of a call is to be summed; else the last one is the call's."""
    usage_lasts: ClassVar[bool] = False
    """Whether usage counts from the conversation's beginning; else from the call's."""
    efforts: ClassVar[tuple[str, ...] | None] = None
    """Words that set its model's reasoning effort; none where it leaves that to the model's server,
    None where it can't be set."""

    @classmethod
    def about(cls, summary: str) -> About:
        """Return what a person is shown of the agent that calls it."""
        return About(
            summary,
            Model.NEEDED,
            program=cls.program,
            install=cls.install,
            extra="agents",
            imports=("httpx2",),
            key=cls.key,
        )

    def __init__(self, effort: str = "") -> None:
        self.effort = effort
        """Empty: as the tool has it by itself."""

    @abstractmethod
    def arguments(self, call: ToolTask) -> Sequence[str]:
        """Return the program's arguments."""

    @abstractmethod
    def parse_event(self, event: Event) -> ToolEvent:
        """Return what an event says. It may be anything: what is not as expected raises as it likes."""

    def files(self, model: str, endpoint: ModelAddress) -> Mapping[str, str]:  # noqa: ARG002 - none, by default
        """Return what is laid in the tool's home before each call, by path."""
        return {}

    def environment(self, model: str, endpoint: ModelAddress) -> Mapping[str, str]:  # noqa: ARG002 - as above
        """Return the tool's environment variables."""
        return endpoint.environment


def tokens(counts: Mapping[str, Any], **names: str) -> dict[str, float]:
    """Return the numbers of a tool's usage under the names that the model proxy has for them."""
    found = {name: counts.get(theirs) for name, theirs in names.items()}
    return {name: count for name, count in found.items() if isinstance(count, int | float)}


@dataclass(slots=True)
class Listener:
    """Reads a tool's events while they come; what can't be read is passed over."""

    tool: Tool
    known: Path
    """The file that keeps the conversation's name for the next call."""
    conversation: str = ""
    totals: Mapping[str, float] = field(default_factory=dict)
    """The tool's usage in earlier calls of this conversation, where it counts from its beginning."""
    usage: dict[str, float] = field(default_factory=dict)
    message: str = ""
    error: str = ""
    n_bytes: int = 0
    _line: bytearray = field(default_factory=bytearray)
    _passing_over: bool = False
    _going_on: bool = False

    def recall(self) -> None:
        """Take up what is kept of the conversation, if there is one."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            kept = json.loads(self.known.read_text(encoding="utf-8"))
            self.conversation, self.totals = str(kept["conversation"]), dict(kept["totals"])

    def keep(self) -> None:
        """Keep the conversation for the next call."""
        totals = {**self.totals, **self.usage} if self.tool.usage_lasts else {}
        self.known.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"conversation": self.conversation, "totals": totals})
        self.known.write_text(text + "\n", encoding="utf-8")

    def forget(self) -> None:
        """Have the next call begin a new conversation."""
        self.known.unlink(missing_ok=True)

    def feed(self, data: bytes) -> None:
        """Take what came next of the output."""
        self.n_bytes += len(data)
        *lines, rest = data.split(b"\n")
        for line in lines:
            if not self._passing_over:
                self._read(bytes(self._line + line))
            self._line.clear()
            self._passing_over = False
        if len(self._line) + len(rest) > LINE_BYTES:
            self._line.clear()
            self._passing_over = True
        elif not self._passing_over:
            self._line += rest

    def of_this_call(self) -> dict[str, float]:
        """Return the tool's usage in this call."""
        before = self.totals if self.tool.usage_lasts else {}
        return {name: amount - before.get(name, 0) for name, amount in self.usage.items()}

    def _read(self, line: bytes) -> None:
        if not line.lstrip().startswith(b"{"):
            return
        # The tool's words: whatever they hold, this thread goes on.
        with suppress(ValueError, TypeError, LookupError, AttributeError):
            self._take(self.tool.parse_event(strict_json.decode(line)))

    def _take(self, heard: ToolEvent) -> None:
        if heard.conversation != self.conversation and CONVERSATION.fullmatch(heard.conversation):
            self.conversation, self.totals = heard.conversation, {}
            self.keep()
        before = self.usage if self.tool.usage_adds_up else {}
        self.usage |= {
            name: amount + before.get(name, 0)
            for name, amount in heard.usage.items()
            if 0 <= amount < MOST  # what a tool prints is untrusted, and a record holds no number of any size
        }
        if heard.message:
            self.message = (self.message * self._going_on + str(heard.message))[:MOST_MESSAGE]
        self._going_on = heard.goes_on
        self.error = str(heard.error)[:MOST_MESSAGE] or self.error


@dataclass(slots=True)
class StallWatch:
    """Knows when nothing has moved for long.

    What moves is what the tool prints, while its model answers; answers of its model; and the judge's count.
    """

    listener: Listener
    model: ModelProxy
    judge: JudgeClient
    quiet_s: float
    _since: float = field(default_factory=monotonic)
    _printed: int = 0
    _answered: int = 0
    _standing: str = ""

    def over(self) -> str:
        """Return in a sentence that it is so; empty where it isn't."""
        if self._moved():
            self._since = monotonic()
        if monotonic() - self._since < self.quiet_s:
            return ""
        standing = self.judge.standing()
        if standing != self._standing:
            self._standing, self._since = standing, monotonic()
            return ""
        return f"nothing moved for {self.quiet_s:g} s"

    def _moved(self) -> bool:
        printed, usage = self.listener.n_bytes, self.model.usage()
        # A tool that asks again and again, and says so, while its model's server fails, doesn't move.
        moved = printed > self._printed and self.model.trouble() is None
        answered = usage.requests - usage.failed
        moved |= answered > self._answered
        self._printed, self._answered = printed, max(answered, self._answered)
        return moved


class CommandLineAgent:
    """Plays by calling a tool."""

    starts_program = True

    def __init__(
        self, tool: Tool, program: Path, config: AgentConfig, upstream: ModelUpstream, limits: AgentLimits
    ) -> None:
        self.max_turns = int(config.options.get("max_turns", config.allowance.turns or MAX_TURNS))
        self.model_url = upstream.base_url
        self.quiet_s = float(config.options.get("quiet_s", QUIET_S))
        self._tool, self._program, self._model = tool, program, config.model
        self._upstream, self._limits = upstream, limits

    def play(self, workspace: Workspace, endpoint: JudgeEndpoint, stop: Flag) -> Turn:
        """Call the tool once, in the conversation of the last call where there was one."""
        workspace.home.mkdir(mode=0o700, exist_ok=True)
        judge = JudgeClient(endpoint.address, stop)
        before = judge.info()
        listener = Listener(self._tool, workspace.conversation)
        listener.recall()
        resumed = listener.conversation
        call = ToolTask(self._model, _prompt(resumed, before.remaining_budget), resumed)
        with ModelProxy(self._upstream.within(workspace), workspace.model_log, workspace.report) as model:
            progress = StallWatch(listener, model, judge, self.quiet_s)
            launch = Launch(
                (*launched(self._program), *self._tool.arguments(call)),
                self._limits,
                workspace.home,
                lambda endpoint: self._equip(workspace.home, endpoint),
                listener.feed,
                lambda: model.spent() or progress.over(),
            )
            ended = run_program(launch, workspace, endpoint, model, stop)
            usage, trouble, limit = model.usage(), model.trouble(), model.spent()
        after = judge.info()
        submitted = after.remaining_budget < before.remaining_budget
        spent = after.is_finalized or not after.remaining_budget
        if limit and not spent:
            end, message = AgentEnd.ALLOWANCE_SPENT, limit
        else:
            end, message = _turn_end(ended, trouble, listener, workspace.transcript, submitted=submitted, spent=spent)
        if end is AgentEnd.CRASHED and resumed and not usage.generations:
            listener.forget()  # it could not even begin: the conversation may be what is broken
        elif listener.conversation:
            listener.keep()
        return Turn(end, message, usage.figures(), ended.findings, listener.of_this_call())

    def _equip(self, home: Path, endpoint: ModelAddress) -> Mapping[str, str]:
        for place, text in self._tool.files(self._model, endpoint).items():
            _write_into_home(home, place, text)
        return self._tool.environment(self._model, endpoint)


def make_tool_agent(tool: Tool, config: AgentConfig) -> CommandLineAgent:
    """Return the agent that plays by a tool; raise ``UsageError`` where it isn't installed or can't be set up so."""
    if not config.model:
        raise UsageError(f"The agent {config.name!r} needs a model: --model NAME.")
    refuse_effort(config, tool.efforts)
    limits = limits_of(config, TOOL_OPTIONS)
    for name in ("max_turns", "quiet_s"):
        amount = config.options.get(name, 1)
        if type(amount) is not int or amount < 1:
            raise UsageError(f"The agent {config.name!r} can't be given {name} = {amount!r}; it is a number from 1.")
    asked = str(config.options.get("program", tool.program))
    found = shutil.which(asked)
    if found is None:
        raise UsageError(
            f"The agent {config.name!r} needs the program {asked!r}, which was not found. Install it with: "
            f"{tool.install}. Or name where it lies in the option 'program'."
        )
    return CommandLineAgent(tool, Path(found), config, _upstream(tool, config), limits)


def _upstream(tool: Tool, config: AgentConfig) -> ModelUpstream:
    given = {name: str(config.options.get(name, "")) for name in MODEL_OPTIONS}
    if given["model_wire"] not in {"", ApiFormat.AUTO, tool.wire}:
        raise UsageError(f"The agent {config.name!r} speaks {tool.wire}, not {given['model_wire']}.")
    if not given["model_url"]:
        given |= {"model_url": tool.url, "model_key": given["model_key"] or tool.key}
    upstream = upstream_of(replace(config, options={**given, "model_wire": tool.wire.value}))
    if upstream is None:
        raise UsageError(f"The agent {config.name!r} needs its model's address: --model-url URL.")
    return upstream


def _prompt(conversation: str, remaining: int) -> str:
    text = (files("evopolicygym.agents.kit") / "prompt.txt").read_text(encoding="utf-8")
    first, _, further = text.partition("\n---\n")
    return (further.format(remaining=remaining) if conversation else first).strip()


def _turn_end(
    ended: ProgramEnd, trouble: int | None, listener: Listener, transcript: Path, *, submitted: bool, spent: bool
) -> tuple[AgentEnd, str]:
    """Return how a call ended, and what a person would want to know of it."""
    if ended.limit:
        return AgentEnd.CRASHED, f"the program was ended: {ended.limit}"
    if ended.code is None and not ended.over:
        return AgentEnd.STOPPED, listener.message
    if spent:
        return AgentEnd.FINISHED, listener.message
    failed = bool(ended.code or ended.over or listener.error) or not submitted
    if trouble is not None and failed:
        return _model_failed(trouble, listener.error)
    if ended.over:
        return AgentEnd.HUNG, f"the program was ended: {ended.over}"
    if ended.code:
        return AgentEnd.CRASHED, listener.error or last_words(ended.code, transcript)
    if not submitted:
        return AgentEnd.GAVE_UP, listener.error or listener.message or "it ended and said nothing"
    return AgentEnd.FINISHED, listener.message


def _model_failed(status: int, said: str) -> tuple[AgentEnd, str]:
    words = f" The tool says: {said}" if said else ""
    if status in TOO_MUCH:
        return AgentEnd.LIMITED, f"The model's server takes no more requests for now (HTTP {status}).{words}"
    if status in WRONG_KEY:
        return AgentEnd.UNAUTHORIZED, f"The model's server doesn't accept the key (HTTP {status}).{words}"
    if status >= SERVERS_FAULT or not status:
        return AgentEnd.UNAVAILABLE, f"The model's server fails (HTTP {status or 'gives no answer'}).{words}"
    return AgentEnd.GAVE_UP, f"The model's server refuses the last request (HTTP {status}).{words}"


def _write_into_home(home: Path, place: str, text: str) -> None:
    """Write a file into a home that an ended program could write, as the home's owner; follow no link in it."""
    owner = home.stat()
    path = home
    for part in PurePosixPath(place).parent.parts:
        path /= part
        if path.is_symlink() or not path.is_dir():
            path.unlink(missing_ok=True)
            path.mkdir(mode=0o700)
            os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)
    file = path / PurePosixPath(place).name
    if file.is_dir() and not file.is_symlink():
        shutil.rmtree(file)
    file.unlink(missing_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
        os.fchown(descriptor, owner.st_uid, owner.st_gid)
        opened.write(text)
