"""Conversations with one tool or none, in two API formats: OpenAI Chat Completions and Anthropic Messages.

The model's own messages are sent back to it unchanged, in its server's format.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from evopolicygym.model_proxy.formats import ApiFormat

Json = dict[str, Any]
MOST_OUTPUT = 16_384
"""Maximum tokens of an answer, for the format that requires a limit."""
DESCRIPTION = (
    "Run a bash command in /workspace. Each command runs in a fresh shell, for at most 300 s; of output above 16 KB, "
    "the middle is cut out."
)
PARAMETERS = {
    "type": "object",
    "properties": {"command": {"type": "string", "description": "The command."}},
    "required": ["command"],
}
HISTORY_FIELDS = re.compile(r"content|tool_calls|extra_content|signature|.*(?:reason|think|thought).*", re.IGNORECASE)
"""Fields of a chat message that go back to the server, such as its reasoning, whatever it calls that; it may reject
others."""
UNREADABLE = "[invalid call: the only tool is bash, and its arguments are a JSON object with a string `command`]"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of the tool."""

    id: str
    command: str | None
    """None if the call is invalid."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A model's answer."""

    message: Json | None
    """The message for the history; None if the answer is empty."""
    text: str
    calls: tuple[ToolCall, ...]


class Conversation(Protocol):
    """A growing history in an API format."""

    wire: ApiFormat
    path: str
    """The path below the server's address."""
    headers: Mapping[str, str]

    def body(self, model: str) -> Json:
        """Return the next request."""

    def say(self, text: str) -> None:
        """Add a message of the harness."""

    def read(self, document: Json) -> Answer:
        """Return an answer; raise ``ValueError``, ``KeyError``, ``TypeError`` … if the document is invalid."""

    def add(self, answer: Answer, results: Sequence[str]) -> None:
        """Add an answer, and the results of its calls in order."""


class _History:
    """What the formats share."""

    def __init__(self, *, bash: bool) -> None:
        self._messages: list[Json] = []
        self._bash = bash
        self._named = 0

    def _identity(self, call: Json) -> str:
        """Return a call's id, or a new one if the server gave none."""
        if call.get("id"):
            return str(call["id"])
        self._named += 1
        return f"call_{self._named:09d}"


class Chat(_History):
    """OpenAI Chat Completions."""

    wire = ApiFormat.CHAT
    path = "/chat/completions"
    headers: Mapping[str, str] = {}

    def __init__(self, effort: str = "", *, bash: bool = True) -> None:
        """Start an empty history; an empty ``effort`` leaves the reasoning effort to the server."""
        super().__init__(bash=bash)
        self._thinking: Json = {"reasoning_effort": effort} if effort else {}

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
        kept = {name: value for name, value in message.items() if value is not None and HISTORY_FIELDS.fullmatch(name)}
        kept["role"] = "assistant"
        calls = []
        for call in kept.get("tool_calls") or ():
            arguments, command = _arguments(call["function"].get("arguments"))
            call["function"]["arguments"] = arguments  # a server may reject arguments that are not JSON
            call["id"] = self._identity(call)
            calls.append(ToolCall(call["id"], command if call["function"]["name"] == "bash" else None))
        text = _text(kept.get("content"))
        kept.setdefault("content", None if calls else "")
        return Answer(kept if text or calls else None, text, tuple(calls))

    def add(self, answer: Answer, results: Sequence[str]) -> None:
        """Add an answer and a tool's message for each call."""
        if answer.message is not None:
            self._messages.append(answer.message)
        for call, result in zip(answer.calls, results, strict=True):
            self._messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


class Messages(_History):
    """Anthropic Messages; the end of the history is marked for the server's cache, which only affects the price."""

    wire = ApiFormat.MESSAGES
    path = "/v1/messages"
    headers: Mapping[str, str] = {"anthropic-version": "2023-06-01"}

    def __init__(self, effort: str = "", *, bash: bool = True) -> None:
        """Start an empty history; an empty ``effort`` leaves thinking to the server's default."""
        super().__init__(bash=bash)
        thinking: Json = {"thinking": {"type": "adaptive"}, "output_config": {"effort": effort}}
        self._thinking = thinking if effort else {}

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
        # A server may reject an empty text in the history.
        blocks = [block for block in document["content"] if block["type"] != "text" or block["text"]]
        for block in blocks:
            if block["type"] == "tool_use":
                block["id"] = self._identity(block)
        calls = tuple(
            ToolCall(block["id"], _command(block["input"]) if block["name"] == "bash" else None)
            for block in blocks
            if block["type"] == "tool_use"
        )
        text = _text(blocks)
        return Answer({"role": "assistant", "content": blocks} if text or calls else None, text, calls)

    def add(self, answer: Answer, results: Sequence[str]) -> None:
        """Add an answer and a user's message with the results of its calls."""
        if answer.message is not None:
            self._messages.append(answer.message)
        if answer.calls:
            content = [
                {"type": "tool_result", "tool_use_id": call.id, "content": result}
                for call, result in zip(answer.calls, results, strict=True)
            ]
            self._messages.append({"role": "user", "content": content})


def add_step(conversation: Conversation, answer: Answer, results: Sequence[str]) -> None:
    """Add an answer with what came of its calls, or of the actions in its text."""
    conversation.add(answer, results if answer.calls else [])
    if results and not answer.calls:
        numbered = (f"[output of block {number}]\n{result}" for number, result in enumerate(results, 1))
        conversation.say("\n".join(numbered) if len(results) > 1 else results[0])


CONVERSATIONS: Mapping[ApiFormat, type[Chat | Messages]] = {ApiFormat.CHAT: Chat, ApiFormat.MESSAGES: Messages}


def _arguments(raw: object) -> tuple[str, str | None]:
    """Return a call's arguments as valid JSON, and the command in them."""
    try:
        arguments = json.loads(raw) if isinstance(raw, str) else raw
    except (ValueError, RecursionError):
        arguments = None
    if not isinstance(arguments, dict):
        return "{}", None
    return (raw if isinstance(raw, str) else json.dumps(arguments)), _command(arguments)


def _command(arguments: object) -> str | None:
    command = arguments.get("command") if isinstance(arguments, dict) else None
    return command if isinstance(command, str) else None


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else ()
    return "".join(str(part.get("text") or "") for part in parts if isinstance(part, dict) and part["type"] == "text")
