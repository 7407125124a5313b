"""A diagnostic: how many episodes a submission had."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evopolicygym.analysis.diagnostic import Diagnostic, mean, share
from evopolicygym.analysis.tables.table import Cell, Table, table_of
from evopolicygym.records.reader import RunRecord


@dataclass(frozen=True, slots=True)
class Pace:
    """The measurement of one run."""

    episodes: tuple[int, ...]
    """Episodes of each submission."""


def measure(record: RunRecord) -> Pace:
    """Return the measurement of a run, of one without submissions too."""
    return Pace(tuple(len(submission.returns) for submission in record.state.submissions))


def table(pace: Pace) -> Table:
    """Return a run's table, a row for each submission."""
    return table_of("part_name", ("submission", "episodes"), tuple(enumerate(pace.episodes)))


def summary(paces: Sequence[Pace]) -> Mapping[str, Cell]:
    """Return the same names for any number of runs."""
    return {
        "submissions": mean(len(pace.episodes) for pace in paces),
        "episodes a submission": mean(share(sum(pace.episodes), len(pace.episodes)) for pace in paces),
    }


DIAGNOSTIC = Diagnostic(measure, table, summary)
