"""Token usage in one form for all API formats, and reading it from an answer while it is passed on."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from evopolicygym.model_proxy.failures import ServerFault, Trouble, classify, error_in, unreadable
from evopolicygym.model_proxy.formats import ApiFormat
from evopolicygym.model_proxy.request import has_too_many_parts

MOST = 1 << 53
"""Largest number of tokens that is believed; a larger one counts as not reported."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of one request; None where the server reported nothing."""

    input: int | None = None
    """All input, cached or not."""
    cached_input: int | None = None
    """The part of the input that was read from a cache."""
    cache_write: int | None = None
    """The part of the input that was written to a cache, where that has a separate price."""
    output: int | None = None
    """All output, reasoning included."""
    reasoning: int | None = None
    """The part of the output that was reasoning."""
    unexplained: int = 0
    """Tokens of the reported total that are in no reported part."""

    @property
    def is_known(self) -> bool:
        """Whether input and output were both reported, and explain the reported total."""
        return self.input is not None and self.output is not None and not self.unexplained

    @property
    def tokens(self) -> int:
        """Reported input plus output."""
        return (self.input or 0) + (self.output or 0)


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """Totals over all requests of a model proxy."""

    requests: int = 0
    """Requests forwarded, of every kind."""
    generations: int = 0
    """Forwarded requests that generate text."""
    failed: int = 0
    """Forwarded requests that ended with an error or without an answer."""
    refused: int = 0
    """Requests that were not forwarded."""
    unknown: int = 0
    """Generations whose usage was not fully reported; the unreported part is missing in the totals below."""
    input: int = 0
    cached_input: int = 0
    cache_write: int = 0
    output: int = 0
    reasoning: int = 0
    seconds: float = 0.0
    """Spent waiting for the model, summed over requests."""
    cost: float | None = None
    """US dollars of reported usage; the true cost is higher if ``unknown`` > 0. None where the price isn't known."""
    assumed_tokens: int = 0
    """Tokens that limits assume for ``unknown`` generations; in none of the totals above."""
    assumed_cost: float | None = None
    """US dollars of ``assumed_tokens``; None where the price isn't known."""

    @property
    def tokens(self) -> int:
        """Reported input plus output."""
        return self.input + self.output

    def figures(self) -> dict[str, float]:
        """Return the known totals by name."""
        return {name: amount for name, amount in asdict(self).items() if amount is not None}


_CACHED = (
    ("prompt_tokens_details", "cached_tokens"),
    ("input_tokens_details", "cached_tokens"),
    ("cached_tokens",),  # Moonshot
    ("prompt_cache_hit_tokens",),  # DeepSeek
    ("cache_read_input_tokens",),  # routers that speak for Anthropic's models
    ("cacheReadInputTokens",),
)
_CACHE_WRITES = (
    ("cache_creation_input_tokens",),
    ("cacheWriteInputTokens",),
    *(
        (details, name)
        for details in ("prompt_tokens_details", "input_tokens_details")
        for name in ("cache_write_tokens", "cache_creation_tokens", "cached_creation_tokens", "cached_write_tokens")
    ),
)
"""The fields in which servers report the parts of the input that were read from, or written to, a cache."""


def read_usage(wire: ApiFormat, fields: Mapping[str, Any]) -> Usage:
    """Return the usage in a server's own fields; a missing or invalid number is None.

    The total, where there is one, is compared: what is in it and in no part was reasoning or cached input that the
    server counts outside of output and input, or else is ``unexplained``.
    """
    total = _first(fields, ("total_tokens",), ("totalTokenCount",))
    match wire:
        case ApiFormat.MESSAGES:
            lasting = [_count(fields, "cache_creation", f"ephemeral_{age}_input_tokens") for age in ("5m", "1h")]
            written = None if lasting == [None, None] else sum(count or 0 for count in lasting)
            cached, cache_write = _first(fields, *_CACHED), _most(_first(fields, *_CACHE_WRITES), written)
            uncached = _first(fields, ("input_tokens",), ("prompt_tokens",))
            whole = None if uncached is None else uncached + (cached or 0) + (cache_write or 0)
            output = _first(fields, ("output_tokens",), ("completion_tokens",))
            return _compared(Usage(whole, cached, cache_write, output), total)
        case ApiFormat.GEMINI:
            return _compared(_gemini(fields), total)
        case _:
            reported = Usage(
                input=_first(fields, ("prompt_tokens",), ("input_tokens",)),
                cached_input=_first(fields, *_CACHED),
                cache_write=_first(fields, *_CACHE_WRITES),
                output=_first(fields, ("completion_tokens",), ("output_tokens",)),
                reasoning=_first(
                    fields,
                    ("completion_tokens_details", "reasoning_tokens"),
                    ("output_tokens_details", "reasoning_tokens"),
                    ("reasoning_tokens",),
                ),
            )
            return _compared(reported, total)


def _compared(usage: Usage, total: int | None) -> Usage:
    """Return usage in which the parts explain the total, as far as they can."""
    if usage.input is None or usage.output is None:
        return usage
    cache = (usage.cached_input or 0) + (usage.cache_write or 0)
    if cache > usage.input:  # it can't be a part of it
        usage = replace(usage, input=usage.input + cache)
        cache = 0
    reasoning = usage.reasoning or 0
    if reasoning > (usage.output or 0):
        usage = replace(usage, output=(usage.output or 0) + reasoning)
        reasoning = 0
    more = 0 if total is None else max(0, total - usage.tokens)
    for outside, inside in ((0, reasoning), (cache, 0), (cache, reasoning)):
        if more and more == outside + inside:
            return replace(usage, input=(usage.input or 0) + outside, output=(usage.output or 0) + inside)
    return replace(usage, unexplained=more)


def _gemini(fields: Mapping[str, Any]) -> Usage:
    prompt = _count(fields, "promptTokenCount")
    if prompt is None:
        return Usage()

    def count(name: str) -> int:
        return _count(fields, name) or 0  # this server omits zeros

    return Usage(
        input=prompt + count("toolUsePromptTokenCount"),
        cached_input=count("cachedContentTokenCount"),
        output=count("candidatesTokenCount") + count("thoughtsTokenCount"),
        reasoning=count("thoughtsTokenCount"),
    )


def _first(fields: Mapping[str, Any], *paths: tuple[str, ...]) -> int | None:
    """Return the largest count at any of the paths: servers fill some with zeros."""
    return _most(*(_count(fields, *path) for path in paths))


def _most(*counts: int | None) -> int | None:
    return max((count for count in counts if count is not None), default=None)


def _count(fields: Mapping[str, Any], *path: str) -> int | None:
    value: Any = fields
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    if isinstance(value, float) and math.isfinite(value):
        value = math.ceil(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MOST:
        return value
    return None


def _grown(before: object, after: object) -> object:
    """Return usage fields after a later report: usage only grows, so a later null or zero erases nothing."""
    if isinstance(before, dict) and isinstance(after, dict):
        return {name: _grown(before.get(name), after.get(name)) for name in before | after}
    numbers = [value for value in (before, after) if isinstance(value, int | float) and not isinstance(value, bool)]
    return max(numbers) if numbers else before if after is None else after


MAX_EVENT_BYTES = 16 << 20
"""Bytes of an event, or of a whole answer without events, that are buffered."""
NAME_LENGTH = 120


class AnswerMeter:
    """Reads usage, model name, failure and end from one answer; bytes that it can't parse are ignored."""

    def __init__(self, wire: ApiFormat, content_type: str) -> None:
        self._wire = wire
        self._is_stream = content_type.partition(";")[0].strip().lower() == "text/event-stream"
        self._buffer = bytearray()
        self._dropping = False
        self._fields: dict[str, Any] = {}
        self._running_output = 0
        """Output that the beginning of an answer of Anthropic's format reports, which is not final."""
        self._final = False
        self._is_answer = False
        """Whether anything of it has the form of an answer in its format."""
        self._has_ended = False
        """Whether the answer says that it has ended."""
        self.trouble: Trouble | None = None
        """The failure that the answer reports."""
        self.model = ""
        """The model that the answer names."""
        self.n_bytes = 0
        """Length of the answer so far."""

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes of the answer."""
        self.n_bytes += len(chunk)
        if not self._is_stream:
            self._keep(chunk)
            return
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            self._keep(line)
            self._read_line()
        self._keep(rest)

    def finish(self, *, whole: bool) -> Usage:
        """Return the reported usage; running counts of output are dropped unless ``whole``: the answer broke off.

        Sets ``trouble`` if a whole answer is none, or has no end.
        """
        if self._is_stream:
            self._read_line()
        elif not self._dropping:
            self._read(bytes(self._buffer))
        if whole and not self.trouble and not self._dropping:
            self.trouble = self._missing()
        usage = read_usage(self._wire, self._fields)
        if (whole and not self._broke_off) or self._final:
            return usage if usage.output is None else replace(usage, output=max(usage.output, self._running_output))
        return Usage(usage.input, usage.cached_input, usage.cache_write)

    @property
    def _broke_off(self) -> bool:
        return self.trouble is not None and self.trouble.fault is ServerFault.BROKE_OFF

    def _missing(self) -> Trouble | None:
        """Return the trouble of an answer that is none, or that lacks its end."""
        if self._is_answer:
            return None if self._has_ended or not self._is_stream else Trouble(ServerFault.BROKE_OFF)
        return unreadable(bytes(self._buffer[:MAX_SHOWN]))

    def _keep(self, data: bytes) -> None:
        if self._dropping or len(self._buffer) + len(data) > MAX_EVENT_BYTES:
            self._dropping = True
            self._buffer.clear()
        else:
            self._buffer += data

    def _read_line(self) -> None:
        line, self._dropping = bytes(self._buffer), False
        self._buffer.clear()
        for field in (b"data:", b"error:"):  # the latter of older servers of llama.cpp
            if line.startswith(field):
                self._read(line[len(field) :], is_error=field == b"error:")

    def _read(self, text: bytes, *, is_error: bool = False) -> None:
        if text.strip() == b"[DONE]":
            self._has_ended = True
            return
        if has_too_many_parts(text):
            self._is_answer = True  # it may be one
            return
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            return
        # A Gemini answer that is streamed without events is one list of documents.
        for part in document if isinstance(document, list) else [document]:
            if isinstance(part, dict):
                self._read_document({"error": part} if is_error else part)

    def _read_document(self, document: dict[str, Any]) -> None:
        if error_in(document) and not self.trouble:
            self.trouble = classify(0, json.dumps(document).encode(), inside=True)
        self._is_answer |= any(document.get(name) not in (None, []) for name in FORMS[self._wire]) or str(
            document.get("type")
        ).startswith(("response.", "message", "content_block", "ping"))
        final = _has_ended(document)
        self._has_ended |= final
        inner = document.get("response") if self._wire is ApiFormat.RESPONSES else document.get("message")
        for holder in (document, inner):
            if not isinstance(holder, dict):
                continue
            model = holder.get("model") or holder.get("modelVersion")
            if isinstance(model, str):
                self.model = model[:NAME_LENGTH]
            usage = holder.get("usage") or holder.get("usageMetadata") or self._usage_in_choice(holder)
            if isinstance(usage, dict):
                self._add(document, usage, final=final or not self._is_stream)

    def _add(self, document: dict[str, Any], usage: dict[str, Any], *, final: bool) -> None:
        if self._wire is ApiFormat.MESSAGES and document.get("type") == "message_start":
            self._running_output = _count(usage, "output_tokens") or 0
            usage = {name: value for name, value in usage.items() if name != "output_tokens"}
        grown = _grown(self._fields, usage)
        self._fields = grown if isinstance(grown, dict) else {}
        self._final |= final

    def _usage_in_choice(self, holder: dict[str, Any]) -> object:
        """Return usage where Moonshot puts it."""
        match holder.get("choices"):
            case [{"usage": usage}, *_] if self._wire is ApiFormat.CHAT:
                return usage
            case _:
                return None


MAX_SHOWN = 1 << 14
"""Bytes of an answer that is none that are searched for its words."""
FORMS: Mapping[ApiFormat, frozenset[str]] = {
    ApiFormat.CHAT: frozenset({"choices"}),
    ApiFormat.MESSAGES: frozenset({"content"}),
    ApiFormat.RESPONSES: frozenset({"output", "response"}),
    ApiFormat.GEMINI: frozenset({"candidates", "promptFeedback", "usageMetadata"}),
    ApiFormat.AUTO: frozenset(),
}
"""The fields of which an answer in a format has at least one."""
_ENDS = frozenset({"message_stop", "response.completed", "response.incomplete", "response.failed"})


def _has_ended(document: dict[str, Any]) -> bool:
    """Return whether a document of an answer, in any format, says that nothing more follows but usage."""
    match document:
        case {"type": str(kind)} if kind in _ENDS:
            return True
        case {"delta": {"stop_reason": str()}} | {"candidates": [{"finishReason": str()}, *_]}:
            return True
        case {"choices": [*choices]}:
            finished = any(isinstance(choice, dict) and choice.get("finish_reason") for choice in choices)
            return finished or (not choices and isinstance(document.get("usage"), dict))
        case {"promptFeedback": {"blockReason": str()}}:
            return True
        case _:
            return False
