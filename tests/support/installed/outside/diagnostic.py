"""A diagnostic: how many episodes a submission had."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evopolicygym.analysis.diagnostic import Diagnostic, mean, share
from evopolicygym.analysis.tables.table import Cell, Table, table_of
from evopolicygym.records.reader import RunRecord


@dataclass(frozen=True, slots=True)
class Pace:
    """One run's."""

    submissions: int
    episodes: int


def measure(record: RunRecord) -> Pace:
    """Return what a run did."""
    return Pace(len(record.state.submissions), record.state.spent)


def table(pace: Pace) -> Table:
    """Return it as one row."""
    return table_of("pace", ("submissions", "episodes"), ((pace.submissions, pace.episodes),))


def summary(paces: Sequence[Pace]) -> Mapping[str, Cell]:
    """Return the mean over runs."""
    return {"episodes a submission": mean(share(one.episodes, one.submissions) for one in paces)}


DIAGNOSTIC = Diagnostic(measure, table, summary)
