"""Token usage in one form for all API formats, and reading it from an answer while it is passed on."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

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

    @property
    def is_known(self) -> bool:
        """Whether input and output were both reported."""
        return self.input is not None and self.output is not None


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


def read_usage(wire: ApiFormat, fields: Mapping[str, Any]) -> Usage:
    """Return the usage in a server's own fields; a missing or invalid number is None."""
    match wire:
        case ApiFormat.MESSAGES:
            cached = _count(fields, "cache_read_input_tokens")
            cache_write = _count(fields, "cache_creation_input_tokens")
            uncached = _count(fields, "input_tokens")
            total = None if uncached is None else uncached + (cached or 0) + (cache_write or 0)
            return Usage(total, cached, cache_write, _count(fields, "output_tokens"))
        case ApiFormat.GEMINI:
            return _gemini(fields)
        case ApiFormat.RESPONSES:
            return Usage(
                input=_count(fields, "input_tokens"),
                cached_input=_count(fields, "input_tokens_details", "cached_tokens"),
                output=_count(fields, "output_tokens"),
                reasoning=_count(fields, "output_tokens_details", "reasoning_tokens"),
            )
        case _:
            counts = (
                _count(fields, "prompt_tokens_details", "cached_tokens"),
                _count(fields, "cached_tokens"),  # Moonshot
                _count(fields, "prompt_cache_hit_tokens"),  # DeepSeek
            )
            return Usage(
                input=_count(fields, "prompt_tokens"),
                cached_input=next((count for count in counts if count is not None), None),
                output=_count(fields, "completion_tokens"),
                reasoning=_count(fields, "completion_tokens_details", "reasoning_tokens"),
            )


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


def _count(fields: Mapping[str, Any], *path: str) -> int | None:
    value: Any = fields
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MOST:
        return value
    return None


MAX_EVENT_BYTES = 16 << 20
"""Bytes of an event, or of a whole answer without events, that are buffered."""
NAME_LENGTH = 120


class AnswerMeter:
    """Reads usage and model name from one answer; bytes that it can't parse are ignored."""

    def __init__(self, wire: ApiFormat, content_type: str) -> None:
        self._wire = wire
        self._is_stream = content_type.partition(";")[0].strip().lower() == "text/event-stream"
        self._buffer = bytearray()
        self._dropping = False
        self._fields: dict[str, Any] = {}
        self._final = False
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
        """Return the reported usage; running counts of output are dropped unless ``whole``: the answer broke off."""
        if self._is_stream:
            self._read_line()
        elif not self._dropping:
            self._read(bytes(self._buffer))
        usage = read_usage(self._wire, self._fields)
        if whole or self._final:
            return usage
        return Usage(usage.input, usage.cached_input, usage.cache_write)

    def _keep(self, data: bytes) -> None:
        if self._dropping or len(self._buffer) + len(data) > MAX_EVENT_BYTES:
            self._dropping = True
            self._buffer.clear()
        else:
            self._buffer += data

    def _read_line(self) -> None:
        line, self._dropping = bytes(self._buffer), False
        self._buffer.clear()
        if line.startswith(b"data:") and (b"sage" in line or b"odel" in line):
            self._read(line[5:])

    def _read(self, text: bytes) -> None:
        if has_too_many_parts(text):
            return
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            return
        # A Gemini answer that is streamed without events is one list of documents.
        for part in document if isinstance(document, list) else [document]:
            if isinstance(part, dict):
                self._read_document(part)

    def _read_document(self, document: dict[str, Any]) -> None:
        inner = document.get("response") if self._wire is ApiFormat.RESPONSES else document.get("message")
        for holder in (document, inner):
            if not isinstance(holder, dict):
                continue
            model = holder.get("model") or holder.get("modelVersion")
            if isinstance(model, str):
                self.model = model[:NAME_LENGTH]
            usage = holder.get("usage") or holder.get("usageMetadata") or self._usage_in_choice(holder)
            if isinstance(usage, dict):
                self._add(document, usage)

    def _add(self, document: dict[str, Any], usage: dict[str, Any]) -> None:
        reported = {key: value for key, value in usage.items() if value is not None}
        if self._wire is ApiFormat.MESSAGES and document.get("type") == "message_start":
            reported.pop("output_tokens", None)  # not final
        self._fields |= reported
        self._final |= self._wire is not ApiFormat.GEMINI or _has_ended(document)

    def _usage_in_choice(self, holder: dict[str, Any]) -> object:
        """Return usage where Moonshot puts it."""
        match holder.get("choices"):
            case [{"usage": usage}, *_] if self._wire is ApiFormat.CHAT:
                return usage
            case _:
                return None


def _has_ended(document: dict[str, Any]) -> bool:
    match document.get("candidates"):
        case [{"finishReason": str()}, *_]:
            return True
        case _:
            return False
