"""Command-line tools as agents: the contract ``Tool``, and the agent that calls any of them.

A turn is one call of the tool; the next turn continues the same conversation. Each tool is a ``Tool`` in a file of its
own, ``agents/builtin/<name>.py``. How a turn ended is decided from outside: by the exit code, the judge's count and the
model server's last answer. A tool's own messages are only quoted.
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
from evopolicygym.agents.kit.model_options import MODEL_OPTIONS, describe_model, limits_of, upstream_of
from evopolicygym.agents.kit.program import Launch, ProgramEnd, ask_version, exit_message, run_program, server_failure
from evopolicygym.core import strict_json
from evopolicygym.core.agent import AgentConfig, AgentEnd, AgentLimits, JudgeEndpoint, Turn, Workspace
from evopolicygym.core.errors import UsageError
from evopolicygym.model_proxy.formats import ApiFormat
from evopolicygym.model_proxy.proxy import ModelProxy
from evopolicygym.model_proxy.upstream import ModelAddress, ModelUpstream
from evopolicygym.model_proxy.usage import MOST
from evopolicygym.sandbox.program.view import launch_command

Event = Mapping[str, Any]
"""A line of JSON that a tool prints."""
MAX_TURNS = 8
QUIET_S = 1800
"""Seconds without progress after which a tool is terminated; those in which a model works for it don't count."""
LINE_BYTES = 4 << 20
"""Longer lines of a tool's output are skipped."""
MOST_MESSAGE = 300
"""Maximum number of characters recorded of a tool's message."""
CONVERSATION = re.compile(r"[\w][\w.:-]{0,127}", re.ASCII)
TOOL_OPTIONS = ("program", "max_turns", "quiet_s")


@dataclass(frozen=True, slots=True)
class ToolTask:
    """The task of one call of a tool."""

    model: str
    prompt: str
    conversation: str = ""
    """The tool's id of the conversation to continue; empty to start a new one."""


@dataclass(frozen=True, slots=True)
class ToolEvent:
    """The content of one event of a tool; fields that it lacks are empty."""

    conversation: str = ""
    message: str = ""
    """The model's last message."""
    error: str = ""
    """Why the tool can't continue."""
    usage: Mapping[str, float] = field(default_factory=dict)
    """Tokens by the names of the model proxy (``input`` with ``cached_input``, ``output`` with ``reasoning``)."""
    continues: bool = False
    """Whether the message continues that of the previous event."""


class Tool(ABC):
    """One command-line tool."""

    program: ClassVar[str]
    """Its name on the PATH."""
    install: ClassVar[str]
    """The command that installs the tested version."""
    wire: ClassVar[ApiFormat]
    url: ClassVar[str]
    """The default address of its model server."""
    key: ClassVar[str]
    """The environment variable that holds the default server's key."""
    usage_per_event: ClassVar[bool] = False
    """Whether each event reports its own usage, to be summed; otherwise the last event reports the call's."""
    usage_is_cumulative: ClassVar[bool] = False
    """Whether usage counts from the start of the conversation; otherwise from the start of the call."""
    efforts: ClassVar[tuple[str, ...] | None] = None
    """Accepted values of the reasoning effort; empty if the model server validates them, None if the tool has no such
    setting."""

    @classmethod
    def about(cls, summary: str) -> About:
        """Return the description of the agent that calls this tool."""
        return About(
            summary,
            Model.NEEDED,
            program=cls.program,
            install=cls.install,
            extra="agents",
            imports=("httpx2",),
            key=cls.key,
            url=cls.url,
        )

    def __init__(self, effort: str = "") -> None:
        self.effort = effort
        """Empty for the tool's default."""

    @abstractmethod
    def arguments(self, task: ToolTask) -> Sequence[str]:
        """Return the program's arguments."""

    @abstractmethod
    def parse_event(self, event: Event) -> ToolEvent:
        """Return the content of an event. Any exception means that the event can't be read; it is skipped."""

    def version_command(self, program: Path) -> Sequence[str]:
        """Return the command that prints the tool's version."""
        return (*launch_command(program), "--version")

    def files(self, model: str, endpoint: ModelAddress) -> Mapping[str, str]:  # noqa: ARG002 - none, by default
        """Return the files written to the tool's home before each call, by path."""
        return {}

    def environment(self, model: str, endpoint: ModelAddress) -> Mapping[str, str]:  # noqa: ARG002 - as above
        """Return the tool's environment variables."""
        return endpoint.environment


def tokens(counts: Mapping[str, Any], **names: str) -> dict[str, float]:
    """Return a tool's token counts under the model proxy's names; ``names`` maps these to the tool's."""
    values = {name: counts.get(tool_name) for name, tool_name in names.items()}
    return {name: count for name, count in values.items() if isinstance(count, int | float)}


@dataclass(slots=True)
class Listener:
    """Parses a tool's events as they arrive; unreadable lines are skipped."""

    tool: Tool
    state_file: Path
    """Stores the conversation's id for the next call."""
    conversation: str = ""
    totals: Mapping[str, float] = field(default_factory=dict)
    """The usage of earlier calls of this conversation, for tools whose usage is cumulative."""
    usage: dict[str, float] = field(default_factory=dict)
    message: str = ""
    error: str = ""
    n_bytes: int = 0
    _line: bytearray = field(default_factory=bytearray)
    _skipping: bool = False
    _continues: bool = False

    def load(self) -> None:
        """Load the stored conversation, if there is one."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            stored = json.loads(self.state_file.read_text(encoding="utf-8"))
            self.conversation, self.totals = str(stored["conversation"]), dict(stored["totals"])

    def save(self) -> None:
        """Store the conversation for the next call."""
        totals = {**self.totals, **self.usage} if self.tool.usage_is_cumulative else {}
        self.state_file.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"conversation": self.conversation, "totals": totals})
        self.state_file.write_text(text + "\n", encoding="utf-8")

    def forget(self) -> None:
        """Make the next call start a new conversation."""
        self.state_file.unlink(missing_ok=True)

    def feed(self, data: bytes) -> None:
        """Parse the next bytes of the output."""
        self.n_bytes += len(data)
        *lines, rest = data.split(b"\n")
        for line in lines:
            if not self._skipping:
                self._read(bytes(self._line + line))
            self._line.clear()
            self._skipping = False
        if len(self._line) + len(rest) > LINE_BYTES:
            self._line.clear()
            self._skipping = True
        elif not self._skipping:
            self._line += rest

    def call_usage(self) -> dict[str, float]:
        """Return the usage of this call."""
        before = self.totals if self.tool.usage_is_cumulative else {}
        return {name: amount - before.get(name, 0) for name, amount in self.usage.items()}

    def _read(self, line: bytes) -> None:
        if not line.lstrip().startswith(b"{"):
            return
        # Untrusted output: whatever a line holds, this thread must not end.
        with suppress(ValueError, TypeError, LookupError, AttributeError):
            self._add(self.tool.parse_event(strict_json.decode(line)))

    def _add(self, event: ToolEvent) -> None:
        if event.conversation != self.conversation and CONVERSATION.fullmatch(event.conversation):
            self.conversation, self.totals = event.conversation, {}
            self.save()
        before = self.usage if self.tool.usage_per_event else {}
        self.usage |= {
            name: amount + before.get(name, 0)
            for name, amount in event.usage.items()
            if 0 <= amount < MOST  # untrusted: records limit the size of numbers
        }
        if event.message:
            self.message = (self.message * self._continues + str(event.message))[:MOST_MESSAGE]
        self._continues = event.continues
        self.error = str(event.error)[:MOST_MESSAGE] or self.error


@dataclass(slots=True)
class StallWatch:
    """Detects a tool that makes no progress.

    Progress is output of the tool while its model server answers, an answer of the model, a request to it under way,
    which the proxy ends if the server hangs, or a change at the judge.
    """

    listener: Listener
    model: ModelProxy
    judge: JudgeClient
    quiet_s: float
    _since: float = field(default_factory=monotonic)
    _printed: int = 0
    _answered: int = 0
    _submissions: dict[str, Any] = field(default_factory=dict)

    def stall(self) -> str:
        """Return a sentence that reports a stall; empty if there is none."""
        if self._has_progressed():
            self._since = monotonic()
        if monotonic() - self._since < self.quiet_s:
            return ""
        submissions = self.judge.submissions()
        if submissions != self._submissions:
            self._submissions, self._since = submissions, monotonic()
            return ""
        return f"nothing moved for {self.quiet_s:g} s"

    def _has_progressed(self) -> bool:
        printed, usage = self.listener.n_bytes, self.model.usage()
        # Printing retries while the model server fails is not progress.
        progressed = printed > self._printed and self.model.trouble() is None
        answered = usage.requests - usage.failed
        progressed |= answered > self._answered or self.model.is_waiting
        self._printed, self._answered = printed, max(answered, self._answered)
        return progressed


class CommandLineAgent:
    """Plays by calling a command-line tool once a turn."""

    starts_program = True
    forgets = True

    def __init__(
        self, tool: Tool, program: Path, config: AgentConfig, upstream: ModelUpstream, limits: AgentLimits
    ) -> None:
        self.max_turns = int(config.options.get("max_turns", config.allowance.turns or MAX_TURNS))
        self.model_url = upstream.base_url
        self.quiet_s = float(config.options.get("quiet_s", QUIET_S))
        self._tool, self._program, self._model = tool, program, config.model
        self._upstream, self._limits = upstream, limits

    def tool_version(self, isolation: str) -> str:
        """Return the version that the tool tells in its sandbox; empty where it tells none."""
        return ask_version(self._tool.version_command(self._program), isolation, self._limits)

    def model_details(self) -> Mapping[str, str]:
        """Return what the server tells of the model."""
        return describe_model(self._upstream)

    def play(self, workspace: Workspace, endpoint: JudgeEndpoint, stop: Flag) -> Turn:
        """Call the tool once, continuing the conversation of the last call if there was one."""
        workspace.home.mkdir(mode=0o700, exist_ok=True)
        judge = JudgeClient(endpoint.address, stop)
        before = judge.info()
        listener = Listener(self._tool, workspace.conversation)
        listener.load()
        resumed = listener.conversation
        task = ToolTask(self._model, _prompt(resumed, before.remaining_budget), resumed)
        with ModelProxy(self._upstream.within(workspace), workspace.model_log, workspace.report) as model:
            watch = StallWatch(listener, model, judge, self.quiet_s)
            launch = Launch(
                (*launch_command(self._program), *self._tool.arguments(task)),
                self._limits,
                workspace.home,
                lambda endpoint: self._equip(workspace.home, endpoint),
                listener.feed,
                lambda: model.spent() or watch.stall(),
            )
            ended = run_program(launch, workspace, endpoint, model, stop)
            usage, trouble, limit, waiting_s = model.usage(), model.trouble(), model.spent(), model.waiting_s()
        after = judge.info()
        submitted = after.remaining_budget < before.remaining_budget
        spent = after.is_finalized or not after.remaining_budget
        if limit and not spent:
            end, message = AgentEnd.ALLOWANCE_SPENT, limit
        else:
            failure = server_failure(trouble, self._upstream.prefix)
            end, message = _turn_end(ended, failure, listener, workspace.transcript, submitted=submitted, spent=spent)
        failed_at_once = end is AgentEnd.CRASHED and resumed and not usage.generations
        if failed_at_once or end is AgentEnd.CONTEXT_EXCEEDED:
            listener.forget()  # it may be broken, or is too long to go on
        elif listener.conversation:
            listener.save()
        return Turn(end, message, usage.figures(), ended.findings, listener.call_usage(), waiting_s)

    def _equip(self, home: Path, endpoint: ModelAddress) -> Mapping[str, str]:
        for name, text in self._tool.files(self._model, endpoint).items():
            _write_into_home(home, name, text)
        return self._tool.environment(self._model, endpoint)


def make_tool_agent(tool: Tool, config: AgentConfig) -> CommandLineAgent:
    """Return the agent that calls a tool; raise ``UsageError`` if the tool or an option is missing or invalid."""
    if not config.model:
        raise UsageError(f"The agent {config.name!r} needs a model: --model NAME.")
    refuse_effort(config, tool.efforts)
    limits = limits_of(config, TOOL_OPTIONS)
    for name in ("max_turns", "quiet_s"):
        amount = config.options.get(name, 1)
        if type(amount) is not int or amount < 1:
            raise UsageError(
                f"Invalid option {name} of the agent {config.name!r}: expected an integer >= 1, got {amount!r}."
            )
    name = str(config.options.get("program", tool.program))
    path = shutil.which(name)
    if path is None:
        raise UsageError(
            f"The agent {config.name!r} needs the program {name!r}, which was not found. Install it with: "
            f"{tool.install}. Or give its path: --option program=PATH."
        )
    return CommandLineAgent(tool, Path(path), config, _upstream(tool, config), limits)


def _upstream(tool: Tool, config: AgentConfig) -> ModelUpstream:
    given = {name: str(config.options.get(name, "")) for name in MODEL_OPTIONS}
    if given["model_wire"] not in {"", ApiFormat.AUTO, tool.wire}:
        raise UsageError(
            f"Invalid --model-wire for the agent {config.name!r}: expected {tool.wire}, got {given['model_wire']}."
        )
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
    ended: ProgramEnd,
    failure: tuple[AgentEnd, str] | None,
    listener: Listener,
    transcript: Path,
    *,
    submitted: bool,
    spent: bool,
) -> tuple[AgentEnd, str]:
    """Return how a call ended, and the message for the record; ``failure`` is that of its last request."""
    if ended.limit:
        return AgentEnd.CRASHED, f"the program was terminated: {ended.limit}"
    if ended.code is None and not ended.stop_reason:
        return AgentEnd.STOPPED, listener.message
    if spent:
        return AgentEnd.FINISHED, listener.message
    if ended.killed and not ended.stop_reason:
        return AgentEnd.KILLED, ended.killed
    failed = bool(ended.code or ended.stop_reason or listener.error) or not submitted
    if failure and failed:
        return failure
    if ended.stop_reason:
        return AgentEnd.HUNG, f"the program was terminated: {ended.stop_reason}"
    if ended.code:
        return AgentEnd.CRASHED, listener.error or exit_message(ended.code, transcript)
    if not submitted:
        return AgentEnd.GAVE_UP, listener.error or listener.message or "it ended without a message"
    return AgentEnd.FINISHED, listener.message


def _write_into_home(home: Path, name: str, text: str) -> None:
    """Write a file as the home's owner, following no link: an earlier program could write there."""
    owner = home.stat()
    path = home
    for part in PurePosixPath(name).parent.parts:
        path /= part
        if path.is_symlink() or not path.is_dir():
            path.unlink(missing_ok=True)
            path.mkdir(mode=0o700)
            os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)
    file = path / PurePosixPath(name).name
    if file.is_dir() and not file.is_symlink():
        shutil.rmtree(file)
    file.unlink(missing_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
        os.fchown(descriptor, owner.st_uid, owner.st_gid)
        opened.write(text)
