"""A conversation in steps, whatever tool held it: what its reader fills, and what an exporter writes down.

What is read is untrusted: a program of an agent's printed it. It is kept as text and never run.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class StepSource(StrEnum):
    """Who a step is of."""

    AGENT = "agent"
    USER = "user"
    SYSTEM = "system"
    """The tool or the judge, by itself."""


@dataclass(frozen=True, slots=True)
class CalledTool:
    """A tool that a model called."""

    id: str
    name: str
    arguments: Mapping[str, Any]
    line: int = 0
    """Of the transcript, counted from 1."""


@dataclass(frozen=True, slots=True)
class CallResult:
    """What came of a call."""

    text: str
    call: str | None = None
    """The id of a call of the same step; None where it answers none."""
    is_error: bool = False


@dataclass(slots=True)
class ConversationStep:
    """One step: a model's answer with the calls in it and what came of them, or what was said to the model."""

    source: StepSource
    message: str = ""
    time: str = ""
    """ISO 8601; empty where the transcript says none."""
    model: str = ""
    reasoning: str = ""
    calls: list[CalledTool] = field(default_factory=list)
    results: list[CallResult] = field(default_factory=list)
    usage: Mapping[str, float] = field(default_factory=dict)
    """Tokens of this step, as the tool tells them: ``input`` (with ``cached_input``) and ``output``."""


class ConversationSteps:
    """The steps of one transcript, as they are read."""

    def __init__(self) -> None:
        self.steps: list[ConversationStep] = []
        self.line = 0
        """Of the transcript that is read, counted from 1."""
        self.version = ""
        """The tool's, where the transcript says it."""
        self.spoken_id: object = None
        """The tool's own name of the latest answer, where it has one and tells answers in pieces."""
        self._caller: dict[str, ConversationStep] = {}

    def add(self, source: StepSource, message: str = "", time: str = "") -> ConversationStep:
        """Begin a step."""
        step = ConversationStep(source, message, time)
        self.steps.append(step)
        return step

    def latest(self, time: str = "") -> ConversationStep:
        """Return the agent's step that is still spoken, or begin one."""
        if self.steps and self.steps[-1].source is StepSource.AGENT and not self.steps[-1].results:
            return self.steps[-1]
        return self.add(StepSource.AGENT, time=time)

    def call(self, step: ConversationStep, name: str, arguments: object, call_id: str = "") -> str:
        """Add a call to a step and return its id; one that is taken, as by an earlier session, is made another."""
        known = call_id and call_id not in self._caller
        made = call_id if known else f"{call_id or 'call'}-{len(self._caller)}"
        step.calls.append(CalledTool(made, name, as_arguments(arguments), self.line))
        self._caller[made] = self._caller[call_id] = step
        return made

    def result(self, call_id: str | None, content: object, *, is_error: bool = False) -> None:
        """Add what came of a call, to the step that has it."""
        step = self._caller.get(call_id) if call_id else None
        if step is None:
            self.latest().results.append(CallResult(as_text(content), is_error=is_error))
            return
        ids = [one.id for one in step.calls]
        found = next((one for one in reversed(ids) if one == call_id or one.startswith(f"{call_id}-")), None)
        step.results.append(CallResult(as_text(content), found, is_error))


def as_arguments(arguments: object) -> Mapping[str, Any]:
    """Return a call's arguments as a JSON object, whether they came as one, as its text, or as anything else."""
    if isinstance(arguments, str):
        try:
            decoded = json.loads(arguments, parse_constant=str)
        except (ValueError, RecursionError):
            return {"text": arguments}
        return decoded if isinstance(decoded, dict) else {"value": decoded}
    return arguments if isinstance(arguments, dict) else {"value": arguments}


def as_text(content: object) -> str:
    """Return a content, which may be parts of text or any JSON, as one text."""
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        return "\n".join(as_text(part) for part in content)
    if isinstance(content, dict) and isinstance(content.get("text"), str):
        return str(content["text"])
    return "" if content is None else json.dumps(content)
