"""``evopolicygym.power``: how many repeats distinguish two agents, and their cost."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from evopolicygym.analysis.ranking.noise import SHIPPED
from evopolicygym.analysis.ranking.power import Plan, TaskForecast, TaskVariances, forecast, task_variances
from evopolicygym.analysis.results import load_results
from evopolicygym.analysis.tables.studies import cases_table, power_document, power_table
from evopolicygym.analysis.tables.table import Table
from evopolicygym.api.read.table_set import TableSet
from evopolicygym.core.check_result import ProgressTracker, no_progress
from evopolicygym.core.directories import DEFAULT_RUNS
from evopolicygym.core.errors import UnknownName, UsageError
from evopolicygym.records.reader import Paths, Problem, find_paths


class PowerForecast(TableSet):
    """The repeats that distinguish two agents: a row for each task, and one for the mean over tasks."""

    def __init__(
        self,
        plan: Plan,
        tasks: Sequence[TaskVariances],
        problems: Sequence[Problem],
        follow: ProgressTracker = no_progress,
    ) -> None:
        super().__init__(problems)
        self.plan = plan
        """The requested difference, power, cases and repeats."""
        self.variances = tuple(tasks)
        """The variances and the cost of a run for each task."""
        self.tasks: tuple[TaskForecast, ...] = tuple(forecast(plan, tasks, follow))
        """The forecasts."""

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        """The forecasts, and repeats by the number of held-out cases."""
        return power_table(self.plan, self.tasks), cases_table(self.tasks)

    @cached_property
    def document(self) -> Mapping[str, Any]:
        """The same as a JSON document."""
        document = power_document(self.plan, self.tasks, self.variances)
        return {**document, "problems": [problem.document for problem in self.problems]}

    @property
    def csv_tables(self) -> list[Table]:
        """The forecasts; repeats by cases are in ``document``."""
        return [self.tables[0]]


def power(  # noqa: PLR0913 - each is an argument of its own
    difference: float = 0.1,
    paths: Paths | None = None,
    tables: Sequence[str] = (SHIPPED,),
    *,
    in_returns: bool = False,
    tasks: Sequence[str] = (),
    repeats: int | None = None,
    power: float = 0.8,
    held_out: int = 32,
    run_hours: float | None = None,
    run_cost: float | None = None,
    runs: str | Path = DEFAULT_RUNS,
    follow: ProgressTracker = no_progress,
) -> PowerForecast:
    """Say how many repeats tell two agents apart that differ by an amount, in episodes, hours and money.

    Args:
        difference: How far their means differ: a normalised score (1 from the better of random and idle play to the
            best known score), or with ``in_returns`` a mean return.
        paths: Runs whose variances, times and costs are used, or directories with runs below. Default: none.
        tables: Shipped tables with repeats that are used too: ``baselines``, or none.
        in_returns: Whether ``difference`` is in returns.
        tasks: The tasks; default: all on which an agent has two runs.
        repeats: Repeats of each agent whose power is asked for; default: the fewest that reach ``power``.
        power: The probability with which the difference is to be found.
        held_out: Held-out cases of each run.
        run_hours: Hours of a run; default: the mean of the runs.
        run_cost: Dollars of a run; default: the mean of the runs, where each reports it.
        runs: Where runs are looked for by id.
        follow: Wraps the loops over runs and over tasks, to show progress: it gets a description and the items, and
            yields the items.

    Returns:
        The forecast; ``records`` has a row for each task. The formulas are in ``docs/measure/leaderboard.md``.

    Raises:
        UsageError: An argument is invalid, or no agent has two runs on a task.

    Example:
        >>> forecast = evopolicygym.power(0.1, tasks=["half_cheetah"])
        >>> forecast.tasks[0].repeats
        7
    """
    _check(difference, repeats, power, held_out)
    if unknown := [name for name in tables if name != SHIPPED]:
        raise UnknownName("shipped table with repeats", unknown[0], [SHIPPED])
    results = load_results(find_paths(paths, runs, needed=not tables), follow)
    known = task_variances([run for run in results.runs if not run.is_release], with_shipped=bool(tables))
    names = [task.task for task in known]
    for name in tasks:
        if name not in names:
            raise UnknownName("task on which an agent has two runs", name, names)
    chosen = [_at(task, run_hours, run_cost) for task in known if not tasks or task.task in tasks]
    if not chosen:
        raise UsageError(
            "Invalid runs: expected two runs of an agent on a task, got none. Name more, or --tables baselines."
        )
    return PowerForecast(Plan(difference, not in_returns, power, held_out, repeats), chosen, results.problems, follow)


def _at(task: TaskVariances, hours: float | None, cost: float | None) -> TaskVariances:
    """Return a task whose runs take given hours and dollars."""
    if task.needs is None:
        return task
    needs = task.needs if hours is None else replace(task.needs, hours=hours)
    return replace(task, needs=needs if cost is None else replace(needs, cost=cost))


def _check(difference: float, repeats: int | None, power: float, held_out: int) -> None:
    if not 0 < difference < float("inf"):
        raise UsageError(f"Invalid difference: expected a number above 0, got {difference}.")
    if not 0 < power < 1:
        raise UsageError(f"Invalid power: expected a probability between 0 and 1, such as 0.8, got {power}.")
    if repeats is not None and repeats < 2:  # noqa: PLR2004 - a verdict takes two
        raise UsageError(f"Invalid repeats: expected 2 or more, as a verdict takes two of each agent, got {repeats}.")
    if held_out < 2:  # noqa: PLR2004 - one case has no standard error
        raise UsageError(f"Invalid held-out cases: expected 2 or more, got {held_out}.")
