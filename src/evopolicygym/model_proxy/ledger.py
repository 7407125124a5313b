"""Adds up what goes through a model proxy, and says when it has been enough.

Single requests are not kept here but in ``log.py``.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from threading import Lock

from evopolicygym.core.agent import reached
from evopolicygym.model_proxy.upstream import ModelUpstream
from evopolicygym.model_proxy.usage import ModelUsage, Usage
from evopolicygym.model_proxy.wire import ModelRequestRefused

BYTES_A_TOKEN = 4
"""What a generation that tells no usage is taken to have used, for the limit only: else it would be no limit."""


class Ledger:
    """The sums of one proxy; may be asked from any thread."""

    def __init__(self, upstream: ModelUpstream, used: Callable[[Mapping[str, float]], None] = lambda _: None) -> None:
        """Keep the limits of an upstream; ``used`` is passed the sums whenever a request is over."""
        self._upstream, self._used = upstream, used
        nothing = None if upstream.price is None else 0.0
        self._usage = ModelUsage(cost=nothing, assumed_cost=nothing)
        self._trouble: int | None = None
        self._lock = Lock()

    def usage(self) -> ModelUsage:
        """Return the sums so far."""
        with self._lock:
            return self._usage

    def spent(self) -> str:
        """Return in a sentence which limit is reached; empty where none is."""
        with self._lock:
            return self._spent()

    def trouble(self) -> int | None:
        """Return the status of the last generation where it failed, 0 where nobody answered; else None."""
        with self._lock:
            return self._trouble

    def settle(self, status: int, *, failed: bool) -> None:
        """Take note of how the last generation ended."""
        with self._lock:
            self._trouble = status if failed else None

    def begin(self, *, generates: bool) -> None:
        """Count a request that is about to be passed on; raise ``ModelRequestRefused`` where the limit is reached."""
        with self._lock:
            usage = self._usage
            if spent := self._spent():
                raise ModelRequestRefused(
                    429, "insufficient_quota", f"For this run's model, {spent}; asking again won't help."
                )
            self._usage = replace(usage, requests=usage.requests + 1, generations=usage.generations + generates)

    def refuse(self) -> None:
        """Count a request that is not passed on."""
        with self._lock:
            self._usage = replace(self._usage, refused=self._usage.refused + 1)

    def end(self, usage: Usage | None, n_bytes: int, seconds: float, *, failed: bool) -> float | None:
        """Add what a request took, and return what it cost; ``usage`` is None for one that takes no tokens."""
        taken = usage or Usage()
        cost = None if usage is None else self._cost(usage)
        unknown = usage is not None and not usage.is_known
        assumed = Usage(max(0, n_bytes // BYTES_A_TOKEN - (taken.input or 0)) if unknown else 0)
        with self._lock:
            total = self._usage
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
                cost=_sum(total.cost, cost),
                assumed_tokens=total.assumed_tokens + (assumed.input or 0),
                assumed_cost=_sum(total.assumed_cost, self._cost(assumed)),
            )
            self._used(self._usage.figures())  # in the order in which they grow
        return cost

    def _spent(self) -> str:
        most, usage = self._upstream, self._usage
        if most.max_requests is not None and usage.requests >= most.max_requests:
            return reached("requests", most.max_requests)
        if most.max_tokens is not None and usage.tokens + usage.assumed_tokens >= most.max_tokens:
            return reached("tokens", most.max_tokens)
        if most.max_cost is not None and (usage.cost or 0.0) + (usage.assumed_cost or 0.0) >= most.max_cost:
            return reached("cost", most.max_cost)
        return ""

    def _cost(self, usage: Usage) -> float | None:
        if self._upstream.price is None:
            return None
        counts = (usage.input, usage.cached_input, usage.cache_write, usage.output)
        return self._upstream.price.cost(*(count or 0 for count in counts))


def _sum(total: float | None, more: float | None) -> float | None:
    return total if more is None else (total or 0.0) + more
