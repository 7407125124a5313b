"""The worst-case tokens of a request, whose cost is reserved before the request is sent.

Fields are allowed by name: any other field may have a separate price and is refused if cost is limited.
"""

import json
import re
from collections.abc import Callable, Mapping
from hashlib import sha256
from itertools import accumulate, takewhile
from math import ceil
from typing import Any
from urllib.parse import urlsplit

from evopolicygym.model_proxy.formats import ApiFormat, Headers, ModelRequestRefused
from evopolicygym.model_proxy.request import OPAQUE
from evopolicygym.model_proxy.usage import Usage

DEFAULT_OUTPUT = 32_768
"""Output tokens reserved for a request without a bound."""
LEAST_OUTPUT = 256
"""Fewest output tokens that are granted to a request for more."""
SERVER_TOKENS = 1024
"""Input tokens that a server may add around messages and tools."""
IMAGE_TOKENS = 50_000
"""Most tokens that any known server counts for an image of any size."""
_IMAGE_DATA = "data:image/"
_MEDIA = frozenset({"input_audio", "audio", "video", "video_url", "file", "input_file"})
"""Kinds of content whose tokens can't be bounded."""
_CONTENT = ("input", "messages", "system", "contents", "systemInstruction", "system_instruction")
"""Fields of a body that hold the model's input."""

Check = Callable[[Any], bool]


def _any(_value: object) -> bool:
    return True


def _among(*values: str) -> Check:
    return lambda value: isinstance(value, str) and value in values


def _is_one(value: object) -> bool:
    return type(value) is int and value == 1


def _is_text_only(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(kind, str) and kind.lower() == "text" for kind in value)


def _only_clears(value: object) -> bool:
    """Return whether edits of a context only remove content; others make the model write a summary."""
    edits = value.get("edits") if isinstance(value, dict) and value.keys() <= {"edits"} else None
    return isinstance(edits, list) and all(
        isinstance(edit, dict) and str(edit.get("type")).startswith("clear_") for edit in edits
    )


def _plain(*names: str) -> dict[str, Check]:
    return dict.fromkeys(names, _any)


_TIER = _among("default", "flex", "standard", "standard_only")
_OPENAI = _plain(
    *("model", "tools", "tool_choice", "parallel_tool_calls", "stream", "stream_options", "temperature", "top_p"),
    *("top_logprobs", "user", "metadata", "safety_identifier", "prompt_cache_key", "store", "background"),
) | {
    "service_tier": _TIER,
    "prompt_cache_retention": _among("in_memory", "in-memory"),
}
_GENERATION = {
    "maxOutputTokens": _any,
    "candidateCount": _is_one,
    "responseModalities": _is_text_only,
    **_plain("temperature", "topP", "topK", "stopSequences", "responseMimeType", "responseSchema", "seed"),
    **_plain("responseJsonSchema", "presencePenalty", "frequencyPenalty", "responseLogprobs", "logprobs"),
    **_plain("thinkingConfig"),
}
PRICED: Mapping[ApiFormat, Mapping[str, Check]] = {
    ApiFormat.RESPONSES: _OPENAI
    | _plain("input", "instructions", "max_output_tokens", "reasoning", "text", "include", "truncation")
    | _plain("max_tool_calls", "client_metadata"),
    ApiFormat.CHAT: _OPENAI
    | _plain("messages", "max_tokens", "max_completion_tokens", "stop", "seed", "logprobs", "logit_bias")
    | _plain("presence_penalty", "frequency_penalty", "response_format", "reasoning_effort", "verbosity")
    | _plain("functions", "function_call", "thinking", "top_k", "min_p", "repetition_penalty", "reasoning")
    | _plain("cache_prompt")
    | {"n": _is_one, "modalities": _is_text_only},
    ApiFormat.MESSAGES: _plain(
        "model", "messages", "max_tokens", "system", "tools", "tool_choice", "stream", "metadata"
    )
    | _plain("stop_sequences", "temperature", "top_p", "top_k", "thinking", "output_config", "output_format")
    | _plain("cache_control")
    | {"service_tier": _TIER, "speed": _among("standard"), "context_management": _only_clears},
    ApiFormat.GEMINI: _plain("contents", "systemInstruction", "tools", "toolConfig", "safetySettings", "labels")
    | _plain("generationConfig"),
}
"""Fields allowed under a limit of cost, each with a check that its value keeps the model's listed price."""
BETAS = (
    *("claude-code-", "oauth-", "interleaved-thinking-", "fine-grained-tool-streaming-", "token-efficient-tools-"),
    *("prompt-caching-", "extended-cache-ttl-", "output-128k-", "context-management-", "structured-outputs-"),
    *("effort-", "tool-examples-", "prompt-caching-scope-", "redact-thinking-", "adaptive-thinking-"),
)
"""Prefixes of ``anthropic-beta`` names that change no price; others are dropped under a limit of cost."""


def worst_case(wire: ApiFormat, path: str, document: Mapping[str, Any], most_input: int) -> Usage:
    """Return the most tokens that a request may take; raise ``ModelRequestRefused`` if they can't be bounded.

    ``most_input`` is what ``InputBounds`` says of it.
    """
    if path.endswith("/compact"):
        raise _unpriced("a request for a summary, whose length has no bound")
    _check_fields(document, PRICED[wire], wire)
    if wire is ApiFormat.RESPONSES:
        _check_references(document.get("input"))
    _check_contents(wire, document)
    return Usage(input=most_input, output=_stated_output(wire, document))


class InputBounds:
    """Bounds the input tokens of requests, closely where a conversation goes on.

    What a server reported of a request is exact for all later requests that begin with the same messages; only what
    was added is bounded by its text. Thread-safe where ``remember`` and ``bound`` don't need to see each other.
    """

    def __init__(self) -> None:
        self._known: dict[bytes, Usage] = {}
        """Reported usage by the digest of a conversation."""
        self._scale = 1.0
        """How many times its bound a text took at most, for a model that cuts text into smaller pieces than others."""

    def bound(self, wire: ApiFormat, document: Mapping[str, Any]) -> tuple[int, bytes]:
        """Return the most input tokens of a request, and the digest of its conversation."""
        head, items = _conversation(wire, document)
        digests = list(accumulate((head, *items), _digest, initial=b""))[1:]
        known = next((at for at in range(len(digests) - 1, -1, -1) if digests[at] in self._known), None)
        if known is None:
            text = sum(_tokens(node) for node in (head, *items)) + ITEM_TOKENS * len(items)
            return ceil(text * self._scale) + SERVER_TOKENS, digests[-1]
        before, added = self._known[digests[known]], items[known:]
        answers = list(takewhile(_is_answer, added))
        answer = ceil(sum(map(_tokens, answers)) * self._scale)
        if before.output is not None:
            answer = min(answer, before.output + ITEM_TOKENS * len(answers))
        text = sum(map(_tokens, added[len(answers) :])) + ITEM_TOKENS * len(added)
        return (before.input or 0) + answer + ceil(text * self._scale) + ITEM_TOKENS, digests[-1]

    def remember(self, digest: bytes, bound: int, usage: Usage) -> None:
        """Take what a server reported of a request with this digest, whose bound was ``bound``."""
        if usage.input is None or not usage.is_known:
            return
        self._scale = max(self._scale, usage.input / max(1, bound))
        while len(self._known) >= MOST_KNOWN:
            self._known.pop(next(iter(self._known)), None)
        self._known[digest] = usage


MOST_KNOWN = 1000
"""Requests whose usage is remembered."""
ITEM_TOKENS = 16
"""Tokens that a server may add around a message."""
_ITEMS = {
    ApiFormat.RESPONSES: "input",
    ApiFormat.CHAT: "messages",
    ApiFormat.MESSAGES: "messages",
    ApiFormat.GEMINI: "contents",
}
_PIECES = re.compile(r" ?([A-Z]?[a-z]+|[A-Z]+)| ?([!-/:-@\[-`{-~])|([0-9])|(\s+)|([^\x00-\x7f]+)")
"""A word's letters or a sign with the space before it, a digit, other white space, and other characters."""


def text_tokens(text: str) -> int:
    """Return a bound on the tokens of a text: about twice those of English, 1.5 times those of code.

    A word takes a token for two letters at most, since tokenisers know all pairs of letters; a digit, a sign and a run
    of white space one each (long runs one for 16), and a character of another script one for each byte.
    """
    total = 0
    for word, sign, digit, space, other in _PIECES.findall(text):
        if word:
            total += (len(word) + 1) // 2 + (len(word) > LONG_WORD)
        elif digit or sign:
            total += 1
        elif space:
            total += 1 + len(space) // 16
        else:
            total += len(other.encode("utf-8", "replace"))
    return total


LONG_WORD = 8


def _conversation(wire: ApiFormat, document: Mapping[str, Any]) -> tuple[Any, list[Any]]:
    """Return what precedes a request's messages, and the messages."""
    name = _ITEMS[wire]
    items = document.get(name)
    listed = items if isinstance(items, list) else [] if items is None else [items]
    settings = {*_OUTPUT_FIELDS[wire], "stream", "stream_options"}
    head = {key: value for key, value in document.items() if key != name and key not in settings}
    return head, listed


def _digest(before: bytes, node: object) -> bytes:
    """Return the digest of a conversation that goes on with a message; marks for a cache are no part of it."""
    text = json.dumps(_unmarked(node), sort_keys=True, ensure_ascii=False)
    return sha256(before + text.encode("utf-8", "replace")).digest()


def _unmarked(node: object) -> object:
    if isinstance(node, dict):
        return {name: _unmarked(value) for name, value in node.items() if name != "cache_control"}
    return [_unmarked(value) for value in node] if isinstance(node, list) else node


def _is_answer(item: object) -> bool:
    """Return whether a message is the model's own."""
    if not isinstance(item, dict):
        return False
    kind = str(item.get("type", ""))
    return item.get("role") in {"assistant", "model"} or kind == "reasoning" or kind.endswith("_call")


def _tokens(node: object) -> int:
    """Return a bound on the tokens of a part of a request, with its structure."""
    total, pending = 0, [node]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            data = _image_data(value)
            total += sum(1 + text_tokens(name) for name in value) + (IMAGE_TOKENS if data else 0)
            pending += [item for item in value.values() if not (data and item is data)]
        elif isinstance(value, list):
            total += len(value)
            pending += value
        elif isinstance(value, str):
            total += text_tokens(value)
        else:
            total += len(str(value))
    return total


def with_output(wire: ApiFormat, document: dict[str, Any], tokens: int, base_url: str) -> bool:
    """Write the bound on output into the body field that the server honours; return whether the body changed."""
    section = document
    if wire is ApiFormat.GEMINI:
        section = document.get("generationConfig") or document.get("generation_config") or {}
    name = _output_field(wire, base_url)
    stated = {field: section[field] for field in _OUTPUT_FIELDS[wire] if field in section}
    if stated == {name: tokens}:
        return False
    for field in stated:
        del section[field]
    section[name] = tokens
    if wire is ApiFormat.GEMINI:
        document.pop("generation_config", None)
        document["generationConfig"] = section
    return True


def priced_headers(headers: Headers) -> Headers:
    """Return headers without the names of ``anthropic-beta`` that may change a price."""
    return [
        (name, b",".join(word for word in value.split(b",") if word.strip().decode("latin-1").startswith(BETAS)))
        if name == b"anthropic-beta"
        else (name, value)
        for name, value in headers
    ]


_OUTPUT_FIELDS = {
    ApiFormat.RESPONSES: ("max_output_tokens",),
    ApiFormat.CHAT: ("max_tokens", "max_completion_tokens"),
    ApiFormat.MESSAGES: ("max_tokens",),
    ApiFormat.GEMINI: ("maxOutputTokens", "max_output_tokens"),
}


def _output_field(wire: ApiFormat, base_url: str) -> str:
    """Return the field that bounds output; for Chat Completions only OpenAI's own servers honour the newer one."""
    host = urlsplit(base_url).hostname or ""
    is_openai = wire is ApiFormat.CHAT and host.endswith((".openai.com", ".azure.com"))
    return "max_completion_tokens" if is_openai else _OUTPUT_FIELDS[wire][0]


def _stated_output(wire: ApiFormat, document: Mapping[str, Any]) -> int:
    section: Mapping[str, Any] = document
    if wire is ApiFormat.GEMINI:
        section = _generation_config(document)
    stated = [section[name] for name in _OUTPUT_FIELDS[wire] if section.get(name) is not None]
    for tokens in stated:
        if type(tokens) is not int or tokens < 1:
            raise ModelRequestRefused(400, "body", "Invalid bound on output tokens: expected an integer >= 1.")
    return min(stated, default=DEFAULT_OUTPUT)


def _generation_config(document: Mapping[str, Any]) -> Mapping[str, Any]:
    configs = [document[name] for name in ("generationConfig", "generation_config") if document.get(name) is not None]
    if len(configs) > 1 or not all(isinstance(config, dict) for config in configs):
        raise ModelRequestRefused(400, "body", "Invalid generationConfig: expected one object.")
    config: Mapping[str, Any] = configs[0] if configs else {}
    _check_fields(config, _GENERATION, ApiFormat.GEMINI)
    return config


def _check_fields(node: Mapping[str, Any], priced: Mapping[str, Check], wire: ApiFormat) -> None:
    known = dict(priced)
    if wire is ApiFormat.GEMINI:  # whose servers take both spellings
        known |= {_snake(name): check for name, check in priced.items()}
    for name, value in node.items():
        if value is not None and not (name in known and known[name](value)):
            raise _unpriced(f"the field {name[:60]!r}" if name not in known else f"this value of {name!r}")


def _check_references(items: object) -> None:
    """Refuse input that is stored in the account, whose length is unknown."""
    for item in items if isinstance(items, list) else []:
        if isinstance(item, dict) and "role" not in item and item.get("type") in {None, "item_reference"}:
            raise _unpriced("input that is stored in the account")


def _check_contents(wire: ApiFormat, document: Mapping[str, Any]) -> None:
    """Refuse content that can't be bounded."""
    tools = document.get("tools")
    for node in (document, *(tools if isinstance(tools, list) else ())):
        if isinstance(node, dict):
            _check_cache(node)
    pending = [document[name] for name in _CONTENT if name in document]
    while pending:
        node = pending.pop()
        if isinstance(node, list):
            pending += node
        if not isinstance(node, dict):
            continue
        _check_content(node)
        data = _image_data(node)
        opaque = OPAQUE | {"input"} if wire is ApiFormat.MESSAGES and node.get("type") == "tool_use" else OPAQUE
        pending += [value for name, value in node.items() if name.lower() not in opaque and value is not data]


def _check_cache(node: Mapping[str, Any]) -> None:
    cache = node.get("cache_control")
    if isinstance(cache, dict) and cache.get("ttl") not in {None, "5m"}:
        raise _unpriced("a cache that lasts longer than five minutes")


def _check_content(node: Mapping[str, Any]) -> None:
    _check_cache(node)
    source, inline = node.get("source"), node.get("inlineData") or node.get("inline_data")
    if node.get("type") in _MEDIA or any(isinstance(node.get(name), dict) for name in _MEDIA):
        raise _unpriced("audio, video and files")
    if node.get("type") == "document" and not (isinstance(source, dict) and source.get("type") in {"text", "content"}):
        raise _unpriced("documents that are not text")
    kind = (inline.get("mimeType") or inline.get("mime_type")) if isinstance(inline, dict) else "image/png"
    if not (isinstance(kind, str) and kind.lower().startswith("image/")):
        raise _unpriced("audio, video and files")


def _image_data(node: Mapping[str, Any]) -> str:
    """Return an image's encoded bytes; empty if the node isn't an image."""
    for name in ("image_url", "url"):
        value = node.get(name)
        if isinstance(value, str) and value.startswith(_IMAGE_DATA):
            return value
    if isinstance(kind := node.get("media_type") or node.get("mimeType") or node.get("mime_type"), str):
        data = node.get("data")
        return data if kind.lower().startswith("image/") and isinstance(data, str) else ""
    return ""


def _unpriced(feature: str) -> ModelRequestRefused:
    return ModelRequestRefused(
        403, "unpriced", f"Under a limit of cost the model proxy doesn't pass on {feature}: its price is not known."
    )


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
