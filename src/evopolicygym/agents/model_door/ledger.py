"""Adds up what goes through a model's door, and says when it has been enough.

Single requests are not kept here but in ``log.py``.
"""

from dataclasses import replace
from threading import Lock

from evopolicygym.agents.model_door.upstream import ModelUpstream
from evopolicygym.agents.model_door.usage import ModelUsage, Usage
from evopolicygym.agents.model_door.wire import CallRefused

BYTES_A_TOKEN = 4
"""What a generation that tells no usage is taken to have used, for the limit only: else it would be no limit."""


class Ledger:
    """The sums of one door; may be asked from any thread."""

    def __init__(self, upstream: ModelUpstream) -> None:
        self._max_requests = upstream.max_requests
        self._max_tokens = upstream.max_tokens
        self._usage = ModelUsage()
        self._guessed = 0
        self._trouble: int | None = None
        self._lock = Lock()

    def usage(self) -> ModelUsage:
        """Return the sums so far."""
        with self._lock:
            return self._usage

    def trouble(self) -> int | None:
        """Return the status of the last generation where it failed, 0 where nobody answered; else None."""
        with self._lock:
            return self._trouble

    def settle(self, status: int, *, failed: bool) -> None:
        """Take note of how the last generation ended."""
        with self._lock:
            self._trouble = status if failed else None

    def begin(self, *, generates: bool) -> None:
        """Count a request that is about to be passed on; raise ``CallRefused`` where the limit is reached."""
        with self._lock:
            usage = self._usage
            if self._max_requests is not None and usage.requests >= self._max_requests:
                raise _enough(f"{self._max_requests} requests")
            if self._max_tokens is not None and usage.tokens + self._guessed >= self._max_tokens:
                raise _enough(f"{self._max_tokens} tokens")
            self._usage = replace(usage, requests=usage.requests + 1, generations=usage.generations + generates)

    def refuse(self) -> None:
        """Count a request that is not passed on."""
        with self._lock:
            self._usage = replace(self._usage, refused=self._usage.refused + 1)

    def end(self, usage: Usage | None, n_bytes: int, seconds: float, *, failed: bool) -> None:
        """Add what a request took; ``usage`` is None for one that takes no tokens."""
        with self._lock:
            total = self._usage
            taken = usage or Usage()
            unknown = usage is not None and not usage.told
            if unknown:
                self._guessed += max(0, n_bytes // BYTES_A_TOKEN - (taken.input or 0))
            self._usage = replace(
                total,
                failed=total.failed + failed,
                unknown=total.unknown + unknown,
                input=total.input + (taken.input or 0),
                cached_input=total.cached_input + (taken.cached_input or 0),
                cache_write=total.cache_write + (taken.cache_write or 0),
                output=total.output + (taken.output or 0),
                reasoning=total.reasoning + (taken.reasoning or 0),
                seconds=total.seconds + seconds,
            )


def _enough(limit: str) -> CallRefused:
    return CallRefused(
        429, "insufficient_quota", f"This run's limit of {limit} to its model is reached; asking again won't help."
    )
