"""What a model costs, as it was known when a run was opened. ``runs/prices.py`` says where prices come from."""

import math
from dataclasses import dataclass

from evopolicygym.core.errors import UsageError

PER = 1_000_000
"""Tokens that a price is for."""


@dataclass(frozen=True, slots=True)
class Rates:
    """US dollars for a million tokens each."""

    input: float
    """What goes in, and was neither read from a cache nor written to one."""
    output: float
    """What comes out, reasoning included."""
    cached_input: float | None = None
    """Input that was read from a cache; None: as other input."""
    cache_write: float | None = None
    """Input that was written to a cache; None: as other input."""

    def __post_init__(self) -> None:
        """Refuse what is no price."""
        for rate in (self.input, self.output, self.cached_input, self.cache_write):
            if rate is not None and not (math.isfinite(rate) and rate >= 0):
                raise UsageError(f"A price of {rate} USD for a million tokens was given; it must be a number from 0.")


@dataclass(frozen=True, slots=True)
class Tier:
    """Rates that hold for a whole request whose input is longer than so many tokens."""

    above: int
    rates: Rates


@dataclass(frozen=True, slots=True)
class PriceSnapshot:
    """The price of one model at one time; it doesn't change while a run lasts, nor when it is read years later."""

    model: str
    source: str
    """Where it is from, with the version, such as ``genai-prices 0.2.3``; ``given`` for one that the user named."""
    date: str
    """When it was looked up, ISO 8601."""
    rates: Rates
    tiers: tuple[Tier, ...] = ()
    """From the shortest to the longest."""
    currency: str = "USD"

    def cost(self, tokens_in: int, cached_input: int, cache_write: int, output: int) -> float:
        """Return what one request costs; ``tokens_in`` is all that went in, cached or not."""
        rates = next((tier.rates for tier in reversed(self.tiers) if tokens_in > tier.above), self.rates)
        fresh = max(0, tokens_in - cached_input - cache_write)
        read = rates.input if rates.cached_input is None else rates.cached_input
        write = rates.input if rates.cache_write is None else rates.cache_write
        return (fresh * rates.input + cached_input * read + cache_write * write + output * rates.output) / PER

    def highest_rates(self, tokens_in: int) -> tuple[float, float]:
        """Return the most that a token in and a token out can cost, in a request with at most so much input."""
        rates = [self.rates, *(tier.rates for tier in self.tiers if tokens_in > tier.above)]
        of_input = max(max(one.input, one.cached_input or 0.0, one.cache_write or 0.0) for one in rates)
        return of_input / PER, max(one.output for one in rates) / PER
