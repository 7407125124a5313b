"""Tokens in one form, whatever a model server calls them.

In which part of an answer they are reported is described in ``meter.py``.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from evopolicygym.model_proxy.wire import Wire

MOST = 1 << 53
"""A larger number of tokens is none."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of one request; None is what was not reported."""

    input: int | None = None
    """All that went in, cached or not."""
    cached_input: int | None = None
    """The part of the input that was read from a cache."""
    cache_write: int | None = None
    """The part of the input that was written to a cache, where that has a price of its own."""
    output: int | None = None
    """All that came out, reasoning included."""
    reasoning: int | None = None
    """The part of the output that was reasoning."""

    @property
    def is_known(self) -> bool:
        """Whether it is known what the request took."""
        return self.input is not None and self.output is not None


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """What has gone through a model proxy."""

    requests: int = 0
    """Passed on, of every kind."""
    generations: int = 0
    """Those of them that asked for text."""
    failed: int = 0
    """Those of them that were answered with an error, or by nobody."""
    refused: int = 0
    """Never passed on."""
    unknown: int = 0
    """Generations whose usage was not reported, wholly or in part: what they took is missing in the sums below."""
    input: int = 0
    cached_input: int = 0
    cache_write: int = 0
    output: int = 0
    reasoning: int = 0
    seconds: float = 0.0
    """Spent waiting for the model, summed over requests."""
    cost: float | None = None
    """US dollars, of what was shown: with any ``unknown``, it cost more. None where the price isn't known."""
    assumed_tokens: int = 0
    """What limits take the ``unknown`` to have used besides; in none of the sums above."""
    assumed_cost: float | None = None
    """US dollars of that; None where the price isn't known."""

    @property
    def tokens(self) -> int:
        """Input and output together, as far as they were shown."""
        return self.input + self.output

    def figures(self) -> dict[str, float]:
        """Return what is known of it, by name."""
        return {name: amount for name, amount in asdict(self).items() if amount is not None}


def read_usage(wire: Wire, fields: Mapping[str, Any]) -> Usage:
    """Return what a server's own usage says."""
    match wire:
        case Wire.MESSAGES:
            read, written = _count(fields, "cache_read_input_tokens"), _count(fields, "cache_creation_input_tokens")
            fresh = _count(fields, "input_tokens")
            whole = None if fresh is None else fresh + (read or 0) + (written or 0)
            return Usage(whole, read, written, _count(fields, "output_tokens"))
        case Wire.GEMINI:
            return _gemini(fields)
        case Wire.RESPONSES:
            return Usage(
                input=_count(fields, "input_tokens"),
                cached_input=_count(fields, "input_tokens_details", "cached_tokens"),
                output=_count(fields, "output_tokens"),
                reasoning=_count(fields, "output_tokens_details", "reasoning_tokens"),
            )
        case _:
            cached = (
                _count(fields, "prompt_tokens_details", "cached_tokens"),
                _count(fields, "cached_tokens"),  # Moonshot
                _count(fields, "prompt_cache_hit_tokens"),  # DeepSeek
            )
            return Usage(
                input=_count(fields, "prompt_tokens"),
                cached_input=next((count for count in cached if count is not None), None),
                output=_count(fields, "completion_tokens"),
                reasoning=_count(fields, "completion_tokens_details", "reasoning_tokens"),
            )


def _gemini(fields: Mapping[str, Any]) -> Usage:
    prompt = _count(fields, "promptTokenCount")
    if prompt is None:
        return Usage()

    def count(name: str) -> int:
        return _count(fields, name) or 0  # this server leaves out what is zero

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
