"""The cost of a run's improvement: tokens and money, by submission and by point of normalised score.

Tokens are those of the model proxy, as in ``RunSummary.usage``; money needs a known price. The usage that an agent's
own tool reports is not read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evopolicygym.analysis.diagnostic import Diagnostic, mean
from evopolicygym.analysis.run_scores import scale_of
from evopolicygym.analysis.tables.table import Cell, Table, table_of
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
    rows = tuple((name, what, cost.by_submission(what), cost.by_point(what)) for name, what in spent.items())
    return table_of("cost", ("what", "the run", "a submission", "a point"), rows)


def summary(costs: Sequence[Cost]) -> Mapping[str, Cell]:
    """Return means over the runs whose values are known."""
    return {
        "tokens": mean(cost.tokens for cost in costs),
        "tokens a submission": mean(cost.by_submission(cost.tokens) for cost in costs),
        "money": mean(cost.money for cost in costs),
        "money a submission": mean(cost.by_submission(cost.money) for cost in costs),
        "points": mean(cost.points for cost in costs),
        "tokens a point": mean(cost.by_point(cost.tokens) for cost in costs),
        "money a point": mean(cost.by_point(cost.money) for cost in costs),
    }


DIAGNOSTIC = Diagnostic(measure, table, summary)
