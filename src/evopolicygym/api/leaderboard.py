"""``evopolicygym.leaderboard``."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from evopolicygym.analysis.published.score_tables import shipped
from evopolicygym.analysis.ranking.leaderboard import Leaderboard
from evopolicygym.analysis.ranking.leaderboard import leaderboard as ranked
from evopolicygym.analysis.ranking.score_table import Choice
from evopolicygym.analysis.ranking.side_by_side import score_tables
from evopolicygym.analysis.results import Problem, load_results
from evopolicygym.analysis.tables.contents import leaderboards_document, standings_table, titled
from evopolicygym.api.places import Places, places_of
from evopolicygym.api.table_set import TableSet
from evopolicygym.core.places import DEFAULT_RUNS


class Leaderboards(TableSet):
    """One leaderboard for each group of runs that may be compared."""

    def __init__(self, boards: Mapping[str, Leaderboard], problems: Sequence[Problem]) -> None:
        self.boards = boards
        """The leaderboards by what sets their runs apart; one with an empty title where all may be compared."""
        tables = [table for title, board in boards.items() for table in titled(title, [standings_table(board)])]
        reasons = [one.document for one in problems]
        super().__init__(tables, leaderboards_document(boards, reasons), problems)


def leaderboard(
    runs: Places = DEFAULT_RUNS,
    beside: Sequence[str] = (),
    *,
    by: Sequence[str] = (),
    family: str | None = None,
    mix: bool = False,
    normalise: str = "best",
    partial: bool = False,
    runs_directory: str | Path = DEFAULT_RUNS,
) -> Leaderboards:
    """Rank entries across tasks, with intervals.

    Args:
        runs: Runs, or directories with runs below; empty for shipped tables alone.
        beside: Shipped tables to stand beside: ``paper``, ``anchors``, ``references``, ``baselines``.
        by: What distinguishes entries besides their agent, such as ``experiment`` or ``seed``.
        family: The tasks of one family only.
        mix: Whether to pool runs that are not comparable in one table; else each group has a table of its own.
        normalise: What scores are normalised by: the table's ``best`` agent, or the best entry of a kind.
        partial: Whether to rank entries that lack tasks with the others.
        runs_directory: Where runs are looked for by id.

    Returns:
        The leaderboards; ``records`` of the first hold ranks and normalised scores (1 is the best entry's, 0 random
        play's). The formulas are in ``docs/measure/leaderboard.md``.

    Raises:
        UsageError: A run is not there, or a table is not known.
    """
    tables = [shipped(name) for name in beside]
    results = load_results(places_of(runs, runs_directory))
    compared = score_tables(results.runs, tables, Choice(list(by), family, mix))
    boards = {title: ranked(table, normalise=normalise, partial=partial) for title, table in compared.items()}
    return Leaderboards(boards, results.problems)
