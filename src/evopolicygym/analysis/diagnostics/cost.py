"""The cost of a run's improvement: tokens and money, by submission and by point of normalised score.

Tokens are those of the model proxy, as in ``RunSummary.usage``; money needs a known price. The usage that an agent's
own tool reports is not read.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from evopolicygym.analysis.diagnostic import Diagnostic, mean
from evopolicygym.analysis.run_scores import scale_of
from evopolicygym.analysis.tables.table import LARGE, Cell, Number, Table, table_of
from evopolicygym.core.run_summary import all_tokens
from evopolicygym.records.reader import RunRecord
from evopolicygym.records.run_document import usage_of

POINTS = 100
"""Points from uniform random to the best that is published."""


@dataclass(frozen=True, slots=True)
class Cost:
    """One run's cost; each is None if it is not known."""

    submissions: int
    input_tokens: float | None
    output_tokens: float | None
    money: float | None
    """The cost in the currency of the run's prices."""
    is_lower_bound: bool
    """Whether tokens and money miss generations whose usage is unknown."""
    price: Hashable
    """What costs must agree in to be averaged; None if the price is unknown."""
    points: float | None
    """The score on the scale from uniform random, 0, to the best published, 100; clipped."""

    @property
    def tokens(self) -> float | None:
        """All tokens, those that went in and those that came out."""
        return all_tokens(self.input_tokens, self.output_tokens)

    def by_submission(self, what: float | None) -> float | None:
        """Return an amount divided by the number of submissions."""
        return _by(what, self.submissions)

    def by_point(self, what: float | None) -> float | None:
        """Return an amount divided by the points; None if there are no points."""
        return _by(what, self.points)


def _by(what: float | None, count: float | None) -> float | None:
    return what / count if what is not None and count else None


def measure(record: RunRecord) -> Cost:
    """Return the cost of a run."""
    usage = usage_of(record)
    held_out, scale = record.state.held_out(), scale_of(record.state.opened.task.environment)
    return Cost(
        submissions=len(record.state.submissions),
        input_tokens=usage.input_tokens if usage else None,
        output_tokens=usage.output_tokens if usage else None,
        money=usage.cost if usage else None,
        is_lower_bound=bool(usage and usage.is_lower_bound),
        price=price.terms if (price := record.state.opened.price) else None,
        points=POINTS * scale.value(held_out.mean) if held_out and scale else None,
    )


def table(cost: Cost) -> Table:
    """Return a table of what a run spent: in all, by submission and by point."""
    spent = {
        "input tokens": cost.input_tokens,
        "output tokens": cost.output_tokens,
        "tokens": cost.tokens,
        "money": cost.money,
    }
    rows = tuple(
        (
            name,
            *(_cell(amount, cost.is_lower_bound) for amount in (what, cost.by_submission(what), cost.by_point(what))),
        )
        for name, what in spent.items()
    )
    return table_of("cost", ("what", "the run", "per submission", "per point"), rows)


def summary(costs: Sequence[Cost]) -> Mapping[str, Cell]:
    """Return means over the runs whose values are known; of money only where all are at one price."""
    bound = any(cost.is_lower_bound for cost in costs)
    paid = [cost for cost in costs if cost.money is not None]
    paid = paid if len({cost.price for cost in paid}) == 1 else []
    return {
        "tokens": _cell(mean(cost.tokens for cost in costs), bound),
        "tokens per submission": _cell(mean(cost.by_submission(cost.tokens) for cost in costs), bound),
        "money": _cell(mean(cost.money for cost in paid), bound),
        "money per submission": _cell(mean(cost.by_submission(cost.money) for cost in paid), bound),
        "points": mean(cost.points for cost in costs),
        "tokens per point": _cell(mean(cost.by_point(cost.tokens) for cost in costs), bound),
        "money per point": _cell(mean(cost.by_point(cost.money) for cost in paid), bound),
    }


def _cell(amount: float | None, is_lower_bound: bool) -> Cell:  # noqa: FBT001 - a cell's only mark
    """Return an amount, marked where it is a lower bound."""
    if amount is None or not is_lower_bound:
        return amount
    return Number(amount, 2 if abs(amount) < LARGE else 0, is_lower_bound=True)


DIAGNOSTIC = Diagnostic(measure, table, summary)
