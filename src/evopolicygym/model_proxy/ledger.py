"""Totals and limits of a model proxy, and its log: a JSON line for each request.

No key, body or header is ever logged.
"""

import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from threading import Lock

from evopolicygym.core import regular_file
from evopolicygym.core.agent import reached
from evopolicygym.core.text import now
from evopolicygym.model_proxy.failures import Trouble
from evopolicygym.model_proxy.formats import ApiFormat, ModelRequestRefused
from evopolicygym.model_proxy.upstream import ModelUpstream
from evopolicygym.model_proxy.usage import ModelUsage, Usage
from evopolicygym.model_proxy.worst_case import LEAST_OUTPUT

BYTES_A_TOKEN = 4
"""Bytes for each token that limits assume of a generation whose usage is not reported."""

RESERVED = "rate_limit"
"""Reason of refusing a request that may pass once others have ended."""


class Ledger:
    """The totals of one proxy; thread-safe."""

    def __init__(self, upstream: ModelUpstream, used: Callable[[Mapping[str, float]], None] = lambda _: None) -> None:
        """Take the limits of an upstream; ``used`` is called with the totals whenever a request ends."""
        self._upstream, self._used = upstream, used
        zero = None if upstream.price is None else 0.0
        self._usage = ModelUsage(cost=zero, assumed_cost=zero)
        self._trouble: Trouble | None = None
        self._reserved = 0.0
        """US dollars reserved for requests in flight."""
        self._too_little = 0.0
        """What the last request could have cost, if it was refused because the rest doesn't cover it; else 0."""
        self._lock = Lock()

    def usage(self) -> ModelUsage:
        """Return the totals so far."""
        with self._lock:
            return self._usage

    def spent(self) -> str:
        """Return a sentence that names the limit that is reached; empty if none is."""
        with self._lock:
            return self._spent()

    def trouble(self) -> Trouble | None:
        """Return how the model server failed at the last generation; None if it didn't."""
        with self._lock:
            return self._trouble

    def settle(self, trouble: Trouble | None) -> None:
        """Record how the last generation ended."""
        with self._lock:
            self._trouble = trouble

    @property
    def limits_cost(self) -> bool:
        """Whether a request needs a worst case before it is sent."""
        return self._upstream.max_cost is not None and self._upstream.price is not None

    def begin(self, *, generates: bool, worst: Usage | None = None) -> Usage | None:
        """Count a request that is about to be forwarded, and reserve its worst cost.

        Returns ``worst`` with as much output as the budget covers. Raises ``ModelRequestRefused`` if a limit is
        reached, or would be by this request.
        """
        with self._lock:
            usage = self._usage
            if spent := self._spent(retries=worst is not None):
                raise _limit_refusal(spent)
            granted = None if worst is None else self._reserve(worst)
            self._usage = replace(usage, requests=usage.requests + 1, generations=usage.generations + generates)
        return granted

    def _reserve(self, worst: Usage) -> Usage:
        of_input, of_output = self._rates(worst)
        wanted = worst.output or 0
        left = (self._upstream.max_cost or 0.0) - self._counted() - (worst.input or 0) * of_input
        output = _affordable(left - self._reserved, of_output, wanted)
        if output < min(wanted, LEAST_OUTPUT):
            if _affordable(left, of_output, wanted) >= min(wanted, LEAST_OUTPUT):
                raise ModelRequestRefused(
                    429, RESERVED, "The rest of this run's cost limit is reserved by requests in flight."
                )
            self._too_little = self._worst_cost(replace(worst, output=min(wanted, LEAST_OUTPUT)))
            raise _limit_refusal(self._spent())
        self._too_little = 0.0
        granted = replace(worst, output=output)
        self._reserved += self._worst_cost(granted)
        return granted

    def refuse(self) -> None:
        """Count a request that is not forwarded."""
        with self._lock:
            self._usage = replace(self._usage, refused=self._usage.refused + 1)

    def end(
        self, usage: Usage | None, n_bytes: int, seconds: float, *, failed: bool, worst: Usage | None = None
    ) -> float | None:
        """Add a request's usage and return its cost in US dollars; ``usage`` is None for a request without tokens.

        ``worst`` is its reservation, which counts if the server reported no usage.
        """
        tokens = usage or Usage()
        cost = None if usage is None else self._cost(usage)
        unknown = usage is not None and not usage.is_known
        assumed, assumed_cost = self._assumed(tokens, cost, n_bytes, worst) if unknown else (0, None)
        with self._lock:
            total = self._usage
            self._reserved = max(0.0, self._reserved - (0.0 if worst is None else self._worst_cost(worst)))
            self._usage = replace(
                total,
                failed=total.failed + failed,
                unknown=total.unknown + unknown,
                input=total.input + (tokens.input or 0),
                cached_input=total.cached_input + (tokens.cached_input or 0),
                cache_write=total.cache_write + (tokens.cache_write or 0),
                output=total.output + (tokens.output or 0),
                reasoning=total.reasoning + (tokens.reasoning or 0),
                seconds=total.seconds + seconds,
                cost=_sum(total.cost, cost),
                assumed_tokens=total.assumed_tokens + assumed,
                assumed_cost=_sum(total.assumed_cost, assumed_cost),
            )
            self._used(self._usage.figures())  # under the lock, so that totals arrive in order
        return cost

    def _assumed(
        self, tokens: Usage, cost: float | None, n_bytes: int, worst: Usage | None
    ) -> tuple[int, float | None]:
        """Return the bound on what a generation used beyond what its server reported: tokens, and US dollars."""
        if tokens.unexplained:  # reported, and only their kind isn't
            of_input, of_output = self._rates(tokens)
            rate = max(of_input, of_output)
            return tokens.unexplained, None if cost is None else tokens.unexplained * rate
        if worst is None:
            more = max(0, n_bytes // BYTES_A_TOKEN - (tokens.input or 0))
            return more, self._cost(Usage(more))
        more = max(0, (worst.input or 0) + (worst.output or 0) - tokens.tokens)
        return more, max(0.0, self._worst_cost(worst) - (cost or 0.0))

    def _spent(self, *, retries: bool = False) -> str:
        limits, usage = self._upstream, self._usage
        if limits.max_requests is not None and usage.requests >= limits.max_requests:
            return reached("requests", limits.max_requests)
        if limits.max_tokens is not None and usage.tokens + usage.assumed_tokens >= limits.max_tokens:
            return reached("tokens", limits.max_tokens)
        if limits.max_cost is not None and (self._counted() >= limits.max_cost or (self._too_little and not retries)):
            return self._cost_spent(limits.max_cost)
        return ""

    def _cost_spent(self, left: float) -> str:
        """Return a sentence on the limit of cost, of which ``left`` was left at the start of the turn."""
        limit = self._upstream.whole_cost or left
        before, unknown = limit - left, self._usage.assumed_cost or 0.0
        text = f"{before + (self._usage.cost or 0.0):.3g} of {limit:.3g} USD spent"
        if unknown:
            text += f", and up to {unknown:.3g} USD that the model server did not report"
        if self._counted() < left:
            text += f"; the next request could cost up to {self._too_little:.3g}"
        return text

    def _counted(self) -> float:
        """Return the US dollars of ended requests, those of unknown usage at their worst."""
        return (self._usage.cost or 0.0) + (self._usage.assumed_cost or 0.0)

    def _cost(self, usage: Usage) -> float | None:
        if self._upstream.price is None:
            return None
        counts = (usage.input, usage.cached_input, usage.cache_write, usage.output)
        return self._upstream.price.cost(*(count or 0 for count in counts))

    def _worst_cost(self, worst: Usage) -> float:
        of_input, of_output = self._rates(worst)
        return (worst.input or 0) * of_input + (worst.output or 0) * of_output

    def _rates(self, worst: Usage) -> tuple[float, float]:
        price = self._upstream.price
        return (0.0, 0.0) if price is None else price.highest_rates(worst.input or 0)


def _affordable(left: float, of_output: float, wanted: int) -> int:
    """Return how many of ``wanted`` output tokens ``left`` US dollars buy; -1 if ``left`` is negative."""
    if left < 0:
        return -1
    return wanted if left >= wanted * of_output else int(left / of_output)


def _limit_refusal(reason: str) -> ModelRequestRefused:
    return ModelRequestRefused(429, "insufficient_quota", f"For this run's model, {reason}; retrying won't help.")


def _sum(total: float | None, more: float | None) -> float | None:
    return total if more is None else (total or 0.0) + more


MAX_BYTES = 16 << 20
MAX_REFUSALS = 1000
"""Refused requests that are logged; a flood of them can't displace the lines of forwarded requests."""
CUT = {"note": "what came after this was not kept"}


def log_line(wire: ApiFormat, status: int, seconds: float, usage: Usage | None, **more: object) -> dict[str, object]:
    """Return the log line of a forwarded request; usage that was not reported is null."""
    tokens = asdict(usage or Usage())
    return {"time": now(), "wire": wire, "status": status or None, "seconds": round(seconds, 3), **tokens, **more}


class ModelLog:
    """Appends lines to one file, up to ``MAX_BYTES``."""

    def __init__(self, path: Path | None) -> None:
        """Write to ``path``; None discards all lines."""
        self._path = path
        self._refusals = 0
        self._room = MAX_BYTES
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._room -= path.stat().st_size if path.exists() else 0

    def write(self, line: Mapping[str, object]) -> None:
        """Append a line while there is room."""
        if "refused" in line:
            self._refusals += 1
            if self._refusals > MAX_REFUSALS:
                return
        if self._path is None or self._room <= 0:
            return
        text = json.dumps(line) + "\n"
        self._room -= len(text)
        if self._room <= 0:
            text = json.dumps(CUT) + "\n"
        # A full disk must not stop the model.
        with contextlib.suppress(OSError), regular_file.appender(self._path) as file:
            file.write(text.encode())
