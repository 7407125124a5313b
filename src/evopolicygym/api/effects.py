"""``evopolicygym.effects``."""

from collections.abc import Sequence
from pathlib import Path

from evopolicygym.analysis.effects.effects import Effects
from evopolicygym.analysis.effects.effects import effects as effects_of_runs
from evopolicygym.analysis.results import Problem, load_results
from evopolicygym.analysis.tables.effects import differences_table, effects_document, effects_tables
from evopolicygym.analysis.tables.table import Table
from evopolicygym.api.table_set import TableSet
from evopolicygym.core.places import DEFAULT_RUNS
from evopolicygym.records.run_names import Places, named_places


class KnobEffects(TableSet):
    """What knobs do: paired differences between levels, means of levels."""

    def __init__(self, found: Effects, problems: Sequence[Problem]) -> None:
        self.effects = found
        """The knobs with their levels, means, and differences with intervals and p-values."""
        document = effects_document(found, [one.document for one in problems])
        super().__init__((differences_table(found),), document, tuple(problems))

    def arranged(self, *, one_each: bool = False) -> list[Table]:
        """Return tables for a reader; with ``one_each`` all differences are one table, as CSV has it."""
        return list(self.tables) if one_each else effects_tables(self.effects)


def effects(
    runs: Places | None = None, knobs: Sequence[str] = (), *, runs_directory: str | Path = DEFAULT_RUNS
) -> KnobEffects:
    """Say what knobs do to scores: means of levels, paired differences with 95 % intervals and Holm's p-values.

    Pairs are runs of one agent on one environment with one seed that differ in one knob alone. What the numbers mean is
    in ``docs/measure/effects.md``.

    Args:
        runs: Runs, or directories with runs below. Default: ``runs_directory``.
        knobs: The knobs to compare, such as ``budget``. Default: all that differ, but ``harness`` and ``model``, which
            are compared where they are named.
        runs_directory: Where runs are looked for by id.

    Returns:
        The effects; ``records`` are the differences, over all environments and on each.

    Raises:
        UsageError: No knob differs, no runs are pairs, or runs differ in more than the knobs.
    """
    results = load_results(named_places(runs, runs_directory, needed=True))
    return KnobEffects(effects_of_runs(results.runs, knobs), results.problems)
