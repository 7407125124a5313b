"""Scripts for a scripted model: shell commands and messages for a tool, in four API formats.

The next step follows from the conversation itself, so a resumed conversation continues where it stopped, and a new one
starts at the first step. ``server.py`` serves a script.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from evopolicygym.agents.kit.scripted_model.server import Json, Reply, answer_pieces, encode_answer

SHELLS = ("exec_command", "shell_command", "shell", "Bash", "bash", "run_shell_command", "Shell", "execute_command")
"""The names of the shell in various tools."""
FILLED = {"boolean": False, "number": 60000, "integer": 60000, "string": "next step"}
"""Values of further required arguments, by type."""


@dataclass(frozen=True, slots=True)
class Shell:
    """A command for the tool to run."""

    command: str


@dataclass(frozen=True, slots=True)
class Say:
    """A message that ends the tool's turn; it must be unique in its script."""

    text: str


Step = Shell | Say


class Script:
    """Answers with its steps in order; requests without a shell, or outside of a conversation, get a plain text.

    Pass it to ``ScriptedModel`` as its ``answer``.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        self.places: list[int] = []
        """For each request that was answered with a step: the step's index."""
        self._steps = tuple(steps)
        self._says = {step.text for step in steps if isinstance(step, Say)}

    def __call__(self, path: str, body: Json, reply: Reply) -> Iterator[bytes]:
        """Yield the answer to a request."""
        style = next((style for end, style in STYLES.items() if path.endswith(end)), None)
        tools = style.tools(body) if style else {}
        shell = next((name for name in SHELLS if name in tools), None)
        if style is None or shell is None:
            yield from answer_pieces(path, body, reply)
            return
        index = _done(style.conversation(body), self._says)
        self.places.append(index)
        step = self._steps[min(index, len(self._steps) - 1)]
        if isinstance(step, Say):
            yield from answer_pieces(path, body, Reply(step.text, identity=_identity(body)))
            return
        documents = style.call(body, shell, _arguments(step.command, tools[shell]))
        yield from encode_answer(path, body, documents)


def _done(conversation: Iterator[str | None], says: set[str]) -> int:
    """Return the number of finished steps in a conversation: tool results, which are None, and scripted messages."""
    return sum(message is None or message in says for message in conversation)


def _arguments(command: str, schema: Json) -> Json:
    properties = schema.get("properties") or {}
    name = "cmd" if "cmd" in properties else "command"
    as_list = (properties.get(name) or {}).get("type") == "array"
    arguments: Json = {name: ["bash", "-c", command] if as_list else command}
    for wanted in schema.get("required") or ():
        kind = (properties.get(wanted) or {}).get("type")
        arguments.setdefault(wanted, FILLED.get(str(kind).lower(), "next step"))
    return arguments


@dataclass(frozen=True, slots=True)
class _Style:
    """How one format has tools, a conversation and the call of a tool."""

    tools: Callable[[Json], dict[str, Json]]
    conversation: Callable[[Json], Iterator[str | None]]
    """Yields None for a tool's result, and every text that the model said."""
    call: Callable[[Json, str, Json], list[Json]]
    """Returns a stream's documents, the last of which is also the whole answer."""


def _identity(body: Json) -> str:
    """Return a name for a call that no other of the conversation has."""
    turns = body.get("input") or body.get("messages") or body.get("contents") or []
    return f"call_{len(turns):04d}"


def _text(content: Any) -> str:  # noqa: ANN401 - of whichever form a format has
    parts = content if isinstance(content, list) else [content or ""]
    return "".join(part if isinstance(part, str) else str(part.get("text") or "") for part in parts)


def _whole(path: str, body: Json) -> Json:
    """Return the plain answer in a format, as a frame for others."""
    unstreamed = {name: value for name, value in body.items() if name != "stream"}
    document: Json = json.loads(next(answer_pieces(path, unstreamed, Reply("", identity=_identity(body)))))
    return document


def _responses_tools(body: Json) -> dict[str, Json]:
    offered = list(body.get("tools") or ())
    for item in body.get("input") or ():
        offered += item.get("tools") or () if isinstance(item, dict) else ()
    nested = [inner for tool in offered for inner in tool.get("tools") or ()]
    return {tool.get("name") or tool["type"]: tool.get("parameters") or {} for tool in (*offered, *nested)}


def _responses_conversation(body: Json) -> Iterator[str | None]:
    for item in body.get("input") or ():
        if item.get("type", "").endswith("_call_output"):
            yield None
        elif item.get("role") == "assistant":
            yield _text(item.get("content"))


def _responses_call(body: Json, name: str, arguments: Json) -> list[Json]:
    call = _identity(body)
    item = {"type": "function_call", "id": f"fc_{call}", "call_id": call, "name": name, "status": "completed"}
    item["arguments"] = json.dumps(arguments)
    whole = _whole("/responses", body) | {"output": [item]}
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    documents: list[Json] = [
        {"type": "response.created", "response": begun},
        {"type": "response.output_item.added", "output_index": 0, "item": item | {"status": "in_progress"}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    ]
    return documents if body.get("stream") else [whole]


def _chat_tools(body: Json) -> dict[str, Json]:
    functions = [tool["function"] for tool in body.get("tools") or () if "function" in tool]
    return {function["name"]: function.get("parameters") or {} for function in functions}


def _chat_conversation(body: Json) -> Iterator[str | None]:
    for message in body.get("messages") or ():
        if message["role"] == "tool":
            yield None
        elif message["role"] == "assistant" and not message.get("tool_calls"):
            yield _text(message.get("content"))


def _chat_call(body: Json, name: str, arguments: Json) -> list[Json]:
    whole = _whole("/chat/completions", body)
    call = {"id": _identity(body), "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    if not body.get("stream"):
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        return [whole | {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}]
    head = {"id": whole["id"], "object": "chat.completion.chunk", "created": 1, "model": whole["model"]}
    delta = {"role": "assistant", "content": "", "tool_calls": [{"index": 0, **call}]}
    chunks: list[Json] = [
        {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
    ]
    asked = (body.get("stream_options") or {}).get("include_usage")
    return [*chunks, {**head, "choices": [], "usage": whole["usage"]}] if asked else chunks


def _messages_tools(body: Json) -> dict[str, Json]:
    return {tool["name"]: tool.get("input_schema") or {} for tool in body.get("tools") or () if "name" in tool}


def _messages_conversation(body: Json) -> Iterator[str | None]:
    for message in body.get("messages") or ():
        content = message["content"] if isinstance(message["content"], list) else [{"text": message["content"]}]
        kinds = [part.get("type") for part in content]
        if message["role"] == "user":
            yield from (None for kind in kinds if kind == "tool_result")
        elif "tool_use" not in kinds:
            yield _text(content)


def _messages_call(body: Json, name: str, arguments: Json) -> list[Json]:
    block = {"type": "tool_use", "id": f"toolu_{_identity(body)}", "name": name, "input": arguments}
    whole = _whole("/messages", body) | {"content": [block], "stop_reason": "tool_use"}
    if not body.get("stream"):
        return [whole]
    usage = whole["usage"]
    begun = whole | {"content": [], "stop_reason": None, "usage": usage | {"output_tokens": 1}}
    delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
    end = {"stop_reason": "tool_use", "stop_sequence": None}
    return [
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": block | {"input": {}}},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": end, "usage": {"output_tokens": usage["output_tokens"]}},
        {"type": "message_stop"},
    ]


def _gemini_tools(body: Json) -> dict[str, Json]:
    declared = [item for tool in body.get("tools") or () for item in tool.get("functionDeclarations") or ()]
    return {item["name"]: item.get("parametersJsonSchema") or item.get("parameters") or {} for item in declared}


def _gemini_conversation(body: Json) -> Iterator[str | None]:
    results: set[str] = set()  # one that is resumed may tell a result twice
    for content in body.get("contents") or ():
        parts = content.get("parts") or []
        if content.get("role") == "model":
            if not any("functionCall" in part for part in parts):
                yield _text(parts)
        else:
            new = {part["functionResponse"].get("id") or "" for part in parts if "functionResponse" in part} - results
            results |= new
            yield from (None for _ in new)


def _gemini_call(body: Json, name: str, arguments: Json) -> list[Json]:
    whole = _whole(":generateContent", body)
    parts = [{"functionCall": {"id": _identity(body), "name": name, "args": arguments}}]
    candidate = {"index": 0, "content": {"role": "model", "parts": parts}, "finishReason": "STOP"}
    return [whole | {"candidates": [candidate]}]


STYLES = {
    "/responses": _Style(_responses_tools, _responses_conversation, _responses_call),
    "/chat/completions": _Style(_chat_tools, _chat_conversation, _chat_call),
    "/messages": _Style(_messages_tools, _messages_conversation, _messages_call),
    "Content": _Style(_gemini_tools, _gemini_conversation, _gemini_call),
}
"""By how a path ends."""
