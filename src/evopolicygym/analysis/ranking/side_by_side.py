"""Tables side by side: runs that are not comparable stand in tables of their own, and none of them is refused.

When runs are comparable is described in ``comparability.py``, and what stands in one table in ``score_table.py``.
"""

from collections.abc import Sequence

from evopolicygym.analysis.published.score_tables import PublishedTable
from evopolicygym.analysis.ranking.comparability import ComparableRuns, comparable
from evopolicygym.analysis.ranking.score_table import Choice, ScoreTable, labelled, score_table
from evopolicygym.analysis.results import RunResult


def comparable_runs(
    runs: Sequence[RunResult], shipped: Sequence[PublishedTable], choice: Choice
) -> tuple[ComparableRuns, ...]:
    """Return the runs of each table; runs on tasks that no table has stand with the first, which says so."""
    if choice.mix:
        return (ComparableRuns("", tuple(runs)),)
    tasks = {name for one in shipped for name in one.tasks} if shipped else {run.task for run in runs}
    if choice.family in {run.family for run in runs}:
        tasks &= {run.task for run in runs if run.family == choice.family}
    first, *others = comparable([run for run in labelled(runs, choice.by) if run.task in tasks], choice.by)
    told_of = {run.identity: run for run in runs}
    outside = (run for run in runs if run.task not in tasks)
    groups = [ComparableRuns(first.title, (*first.runs, *outside)), *others]
    return tuple(ComparableRuns(one.title, tuple(told_of[run.identity] for run in one.runs)) for one in groups)


def score_tables(
    runs: Sequence[RunResult], shipped: Sequence[PublishedTable], choice: Choice | None = None
) -> dict[str, ScoreTable]:
    """Return a table for each group of comparable runs, by title, each beside the shipped tables."""
    choice = choice or Choice()
    return {one.title: score_table(one.runs, shipped, choice) for one in comparable_runs(runs, shipped, choice)}
