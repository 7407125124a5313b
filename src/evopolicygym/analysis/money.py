"""The mean cost of runs, where it has a meaning: all at one price, and marked where some usage is unknown."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from evopolicygym.records.rows import RunRow


@dataclass(frozen=True, slots=True)
class Money:
    """An amount in US dollars."""

    value: float
    is_lower_bound: bool = False
    """Whether generations whose usage is unknown are missing in it."""


def mean_cost(runs: Sequence[RunRow]) -> Money | None:
    """Return the mean cost of runs; None without runs, if any cost is unknown, or at more than one price."""
    costs = [run.cost_usd for run in runs if run.cost_usd is not None]
    if not costs or len(costs) < len(runs) or has_several_prices(runs):
        return None
    return Money(fmean(costs), any(run.cost_is_lower_bound for run in runs))


def has_several_prices(runs: Iterable[RunRow]) -> bool:
    """Return whether the known costs of runs are at more than one price; what agents' tools told is a price too."""
    prices = [run.price.terms if run.price else None for run in runs if run.cost_usd is not None]
    return any(price != prices[0] for price in prices)


def price_notes(runs_by_entry: Iterable[tuple[str, Sequence[RunRow]]]) -> list[str]:
    """Return a note on entries without a cost because their runs were paid at more than one price."""
    names = [name for name, runs in runs_by_entry if has_several_prices(runs)]
    if not names:
        return []
    return [f"No cost, as runs were played at different prices: {', '.join(names)}."]
