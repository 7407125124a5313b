"""A diagnostic, the registry of diagnostics, and their tables over runs.

A diagnostic is a file of ``diagnostics/`` that defines ``DIAGNOSTIC``, an entry point of the group
``evopolicygym.diagnostics``, or ``package.module:ATTRIBUTE``. ``docs/measure/diagnostics.md`` has the formulas.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from evopolicygym.analysis.tables.table import Cell, Table, table_of
from evopolicygym.core import score
from evopolicygym.core.registry import Registry
from evopolicygym.core.run import RunState
from evopolicygym.records.reader import RunRecord

DIAGNOSTICS = Registry(
    kind="diagnostic",
    package="evopolicygym.analysis.diagnostics",
    group="evopolicygym.diagnostics",
    attribute="DIAGNOSTIC",
)
UNLIKE = "Returns of different tasks are not averaged: these columns are empty where a row is of several tasks."
ALL = "all"
"""Stands for every kind of task in a table."""

Measured = TypeVar("Measured")


@dataclass(frozen=True, slots=True)
class Diagnostic(Generic[Measured]):
    """One diagnostic: what it measures of a run, and how that is described."""

    measure: Callable[[RunRecord], Measured]
    """Returns a frozen dataclass."""
    table: Callable[[Measured], Table]
    """Returns a run's table, with a row for each submission if possible."""
    summary: Callable[[Sequence[Measured]], Mapping[str, Cell]]
    """Returns the same named summaries for any number of runs."""
    in_returns: frozenset[str] = frozenset()
    """Names in the summary that are in the environment's own returns: their means over unlike tasks mean nothing."""


@dataclass(frozen=True, slots=True)
class Group:
    """The group that a run is counted in."""

    entry: str
    """The agent with its model."""
    kind: str
    """The kind of the task."""
    task: str = ""


def group_of(state: RunState) -> Group:
    """Return the group that a run is counted in."""
    environment = state.opened.task.environment
    return Group(state.opened.entry, environment.kind.value, environment.name)


def summary_table(name: str, diagnostic: Diagnostic[Any], measured: object) -> Table:
    """Return the summary of one run as a table."""
    rows = tuple(diagnostic.summary([measured]).items())
    return table_of(f"{name}, in short", ("measure", "value"), rows)


def table_over_runs(name: str, diagnostic: Diagnostic[Any], runs: Sequence[tuple[Group, Any]]) -> Table:
    """Return one row for each entry and kind of task, and one for all kinds where an entry has several.

    Columns in returns are empty for runs of several tasks, with a note.
    """
    left_out = False
    rows: list[tuple[Cell, ...]] = []
    columns: tuple[str, ...] = ()
    for entry in sorted({group.entry for group, _ in runs}):
        own = [(group, measured) for group, measured in runs if group.entry == entry]
        kinds = sorted({group.kind for group, _ in own})
        for kind in [*kinds, ALL] if len(kinds) > 1 else kinds:
            here = [(group.task, measured) for group, measured in own if kind in {group.kind, ALL}]
            counted = [measured for _, measured in here]
            summary = dict(diagnostic.summary(counted))
            if diagnostic.in_returns and len({task for task, _ in here}) > 1:
                summary |= dict.fromkeys(diagnostic.in_returns)
                left_out = True
            columns = ("entry", "kind", "runs", *summary)
            rows.append((entry, kind, len(counted), *summary.values()))
    return replace(table_of(name, columns, rows), notes=(UNLIKE,) if left_out else ())


def mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of the known values; None if there are none."""
    return score.mean(values, add=sum)  # one after the other: the last digits are those that were published


def share(part: int, whole: int) -> float | None:
    """Return a part of a whole; None if the whole is 0."""
    return part / whole if whole else None
