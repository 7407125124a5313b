"""A conversation in steps, independent of the tool: readers of transcripts build it, and exporters write it.

Its content is untrusted, since an agent's program printed it. It is kept as text and never run.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any


class StepSource(StrEnum):
    """The author of a step."""

    AGENT = "agent"
    USER = "user"
    SYSTEM = "system"
    """The tool itself, or the judge."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's call of a tool."""

    id: str
    name: str
    arguments: Mapping[str, Any]
    line: int = 0
    """Its line in the transcript, counted from 1."""


@dataclass(frozen=True, slots=True)
class CallResult:
    """The result of a call."""

    text: str
    call: str | None = None
    """The id of a call of the same step; None if it belongs to no call."""
    is_error: bool = False


@dataclass(slots=True)
class ConversationStep:
    """A step: a model's answer with its calls and their results, or a message to the model."""

    source: StepSource
    message: str = ""
    time: str = ""
    """ISO 8601; empty if the transcript has no times."""
    model: str = ""
    reasoning: str = ""
    calls: list[ToolCall] = field(default_factory=list)
    results: list[CallResult] = field(default_factory=list)
    usage: Mapping[str, float] = field(default_factory=dict)
    """Tokens of this step, as the tool reports them: ``input`` (which includes ``cached_input``) and ``output``."""


class ConversationSteps:
    """Builds the steps of a transcript, event by event."""

    def __init__(self) -> None:
        self.steps: list[ConversationStep] = []
        self.line = 0
        """The present line of the transcript, counted from 1."""
        self.version = ""
        """The tool's version, if the transcript has it."""
        self.message_id: object = None
        """The id of the latest answer, for tools that print answers in pieces."""
        self._caller: dict[str, ConversationStep] = {}

    def add(self, source: StepSource, message: str = "", time: str = "") -> ConversationStep:
        """Add a step."""
        step = ConversationStep(source, message, time)
        self.steps.append(step)
        return step

    def latest(self, time: str = "") -> ConversationStep:
        """Return the agent's latest step if it has no results yet; otherwise add a step."""
        if self.steps and self.steps[-1].source is StepSource.AGENT and not self.steps[-1].results:
            return self.steps[-1]
        return self.add(StepSource.AGENT, time=time)

    def call(self, step: ConversationStep, name: str, arguments: object, call_id: str = "") -> str:
        """Add a call to a step and return its id, which is made unique: several sessions may use the same ids."""
        is_new = call_id and call_id not in self._caller
        unique_id = call_id if is_new else f"{call_id or 'call'}-{len(self._caller)}"
        step.calls.append(ToolCall(unique_id, name, as_arguments(arguments), self.line))
        self._caller[unique_id] = self._caller[call_id] = step
        return unique_id

    def has_call(self, call_id: str) -> bool:
        """Return whether a call with this id was added."""
        return call_id in self._caller

    def arguments_of(self, call_id: str) -> Mapping[str, Any]:
        """Return the arguments of the latest call with this id."""
        step = self._caller[call_id]
        return step.calls[_latest(step, call_id)].arguments

    def amend(self, call_id: str, arguments: Mapping[str, Any]) -> None:
        """Replace the arguments of the latest call with this id, which a tool reports in pieces."""
        step = self._caller[call_id]
        at = _latest(step, call_id)
        step.calls[at] = replace(step.calls[at], arguments=arguments)

    def result(self, call_id: str | None, content: object, *, is_error: bool = False) -> None:
        """Add a call's result to the step that has the call."""
        step = self._caller.get(call_id) if call_id else None
        if step is None:
            self.latest().results.append(CallResult(as_text(content), is_error=is_error))
            return
        at = _latest(step, call_id) if call_id else -1
        step.results.append(CallResult(as_text(content), step.calls[at].id if at >= 0 else None, is_error))


def _latest(step: ConversationStep, call_id: str) -> int:
    """Return the place of a step's latest call with a tool's id; -1 without one."""
    indices = (at for at, call in enumerate(step.calls) if call.id == call_id or call.id.startswith(f"{call_id}-"))
    return max(indices, default=-1)


def as_arguments(arguments: object) -> Mapping[str, Any]:
    """Return a call's arguments as a JSON object, given as an object, as JSON text, or as any other value."""
    if isinstance(arguments, str):
        try:
            decoded = json.loads(arguments, parse_constant=str)
        except (ValueError, RecursionError):
            return {"text": arguments}
        return decoded if isinstance(decoded, dict) else {"value": decoded}
    return arguments if isinstance(arguments, dict) else {"value": arguments}


def as_text(content: object) -> str:
    """Return a content, which may be a list of parts or any JSON value, as text."""
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        return "\n".join(as_text(part) for part in content)
    if isinstance(content, dict) and isinstance(content.get("text"), str):
        return str(content["text"])
    return "" if content is None else json.dumps(content)
