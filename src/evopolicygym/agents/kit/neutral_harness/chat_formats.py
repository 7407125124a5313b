"""A conversation with one tool or none, in the two formats: OpenAI Chat Completions and Anthropic Messages.

A model's messages go back to it in its server's own format.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from evopolicygym.model_proxy.formats import ApiFormat

Json = dict[str, Any]
MOST_OUTPUT = 16_384
"""Tokens that one answer may have, where a format wants to be given; else the server's own most holds."""
DESCRIPTION = (
    "Run a bash command in /workspace. Each command has a fresh shell and 300 s; its output is cut in the middle "
    "above 16 KB."
)
PARAMETERS = {
    "type": "object",
    "properties": {"command": {"type": "string", "description": "The command."}},
    "required": ["command"],
}
SPOKEN_BACK = ("role", "content", "tool_calls", "reasoning_content", "reasoning_details")
"""Fields of a chat's answer that the server wants to see again; others it may refuse."""
UNREADABLE = (
    "[this call can't be read: the one tool is bash, and its arguments are a JSON object with a text `command`]"
)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of the tool."""

    id: str
    command: str | None
    """None where it can't be read."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model said."""

    message: Json | None
    """As it goes into the history; None where it said nothing at all."""
    text: str
    calls: tuple[ToolCall, ...]


class Conversation(Protocol):
    """A history that grows, and how it is described."""

    wire: ApiFormat
    path: str
    """What stands after the server's address."""
    headers: Mapping[str, str]

    def body(self, model: str) -> Json:
        """Return the next request."""

    def say(self, text: str) -> None:
        """Add a message of the harness."""

    def read(self, document: Json) -> Answer:
        """Return an answer; raise ``ValueError``, ``KeyError``, ``TypeError`` … where it is none."""

    def add(self, answer: Answer, results: Sequence[str]) -> None:
        """Add an answer, with what came of its calls in their order."""


class Chat:
    """OpenAI Chat Completions."""

    wire = ApiFormat.CHAT
    path = "/chat/completions"
    headers: Mapping[str, str] = {}

    def __init__(self, effort: str = "", *, bash: bool = True) -> None:
        """Have the model think so much; empty: as its server has it."""
        self._messages: list[Json] = []
        self._thinking: Json = {"reasoning_effort": effort} if effort else {}
        self._bash = bash

    def body(self, model: str) -> Json:
        """Return the next request."""
        function = {"name": "bash", "description": DESCRIPTION, "parameters": PARAMETERS}
        tools = {"tools": [{"type": "function", "function": function}]} if self._bash else {}
        return {"model": model, "messages": self._messages, **tools, **self._thinking}

    def say(self, text: str) -> None:
        """Add a user's message."""
        self._messages.append({"role": "user", "content": text})

    def read(self, document: Json) -> Answer:
        """Return the first choice's message."""
        message = document["choices"][0]["message"]
        kept = {name: message[name] for name in SPOKEN_BACK if message.get(name) is not None} | {"role": "assistant"}
        calls = []
        for call in kept.get("tool_calls") or ():
            arguments, command = _arguments(call["function"].get("arguments"))
            call["function"]["arguments"] = arguments  # a server may refuse to see again what is no JSON
            calls.append(ToolCall(str(call["id"]), command if call["function"]["name"] == "bash" else None))
        text = _text(kept.get("content"))
        kept.setdefault("content", None if calls else "")
        return Answer(kept if text or calls else None, text, tuple(calls))

    def add(self, answer: Answer, results: Sequence[str]) -> None:
        """Add an answer and a tool's message for each call."""
        if answer.message is not None:
            self._messages.append(answer.message)
        for call, result in zip(answer.calls, results, strict=True):
            self._messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


class Messages:
    """Anthropic Messages, whose history is marked at its end for the server's cache, which changes its price only."""

    wire = ApiFormat.MESSAGES
    path = "/v1/messages"
    headers: Mapping[str, str] = {"anthropic-version": "2023-06-01"}

    def __init__(self, effort: str = "", *, bash: bool = True) -> None:
        """Have the model think so much, and when it finds that worth it; empty: as its server has it."""
        self._messages: list[Json] = []
        thinking: Json = {"thinking": {"type": "adaptive"}, "output_config": {"effort": effort}}
        self._thinking = thinking if effort else {}
        self._bash = bash

    def body(self, model: str) -> Json:
        """Return the next request."""
        *before, last = self._messages
        *blocks, end = last["content"]
        marked = {**last, "content": [*blocks, {**end, "cache_control": {"type": "ephemeral"}}]}
        tool = {"name": "bash", "description": DESCRIPTION, "input_schema": PARAMETERS}
        tools = {"tools": [tool]} if self._bash else {}
        fields = {"max_tokens": MOST_OUTPUT, "messages": [*before, marked], **tools}
        return {"model": model, **fields, **self._thinking}

    def say(self, text: str) -> None:
        """Add a user's message."""
        self._messages.append({"role": "user", "content": [{"type": "text", "text": text}]})

    def read(self, document: Json) -> Answer:
        """Return all blocks."""
        # A server may refuse to see an empty text again.
        blocks = [block for block in document["content"] if block["type"] != "text" or block["text"]]
        calls = tuple(
            ToolCall(str(block["id"]), _command(block["input"]) if block["name"] == "bash" else None)
            for block in blocks
            if block["type"] == "tool_use"
        )
        text = _text(blocks)
        return Answer({"role": "assistant", "content": blocks} if text or calls else None, text, calls)

    def add(self, answer: Answer, results: Sequence[str]) -> None:
        """Add an answer and one user's message with what came of its calls."""
        if answer.message is not None:
            self._messages.append(answer.message)
        if answer.calls:
            content = [
                {"type": "tool_result", "tool_use_id": call.id, "content": result}
                for call, result in zip(answer.calls, results, strict=True)
            ]
            self._messages.append({"role": "user", "content": content})


CONVERSATIONS: Mapping[ApiFormat, type[Chat | Messages]] = {ApiFormat.CHAT: Chat, ApiFormat.MESSAGES: Messages}


def _arguments(given: object) -> tuple[str, str | None]:
    """Return a call's arguments as JSON that can be read, with the command in them."""
    try:
        arguments = json.loads(given) if isinstance(given, str) else given
    except (ValueError, RecursionError):
        arguments = None
    if not isinstance(arguments, dict):
        return "{}", None
    return (given if isinstance(given, str) else json.dumps(arguments)), _command(arguments)


def _command(arguments: object) -> str | None:
    command = arguments.get("command") if isinstance(arguments, dict) else None
    return command if isinstance(command, str) else None


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else ()
    return "".join(str(part.get("text") or "") for part in parts if isinstance(part, dict) and part["type"] == "text")
