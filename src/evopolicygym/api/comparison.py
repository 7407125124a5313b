"""``evopolicygym.compare``."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from evopolicygym.analysis.published.score_tables import shipped
from evopolicygym.analysis.ranking.pairing import Pairing, pairing
from evopolicygym.analysis.ranking.score_table import Choice, score_table
from evopolicygym.analysis.results import Problem, Results, RunResult, load_results
from evopolicygym.analysis.tables.contents import overall_table, pairing_document, pairing_table
from evopolicygym.analysis.tables.table import Table
from evopolicygym.api.table_set import TableSet
from evopolicygym.core.errors import RecordError, UsageError
from evopolicygym.core.places import DEFAULT_RUNS
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.run_document import read_summary
from evopolicygym.records.run_names import Places, named_places


class Comparison(TableSet):
    """Two entries, task by task."""

    def __init__(self, pair: Pairing, problems: Sequence[Problem]) -> None:
        self.pair = pair
        """Differences with intervals, the probability of improvement, and the mean normalised difference."""
        reasons = [one.document for one in problems]
        tables = (pairing_table(pair), overall_table(pair))
        super().__init__(tables, {**pairing_document(pair), "problems": reasons}, tuple(problems))

    @property
    def csv_tables(self) -> list[Table]:
        """The tasks; what is said over all of them is in ``pair``."""
        return [self.tables[0]]


def compare(
    first: str | Path,
    second: str | Path,
    runs: Places | None = None,
    beside: Sequence[str] = (),
    *,
    by: Sequence[str] = (),
    mix: bool = False,
    runs_directory: str | Path = DEFAULT_RUNS,
) -> Comparison:
    """Compare two entries task by task: differences with intervals, and the probability that the first is better.

    Args:
        first: An entry's label, or a directory with the runs of one entry.
        second: The same.
        runs: Where labels are looked for: runs, or directories with runs below. Default: ``runs_directory``, where it
            is needed.
        beside: Shipped tables to take entries from, such as ``paper``.
        by: What distinguishes entries besides their agent, such as ``experiment`` or ``seed``.
        mix: Whether to compare runs that are not comparable.
        runs_directory: Where runs are looked for by id.

    Raises:
        UsageError: There is no such entry, both sides are the same, or their runs are not comparable.
    """
    sides, tables = (str(first), str(second)), [shipped(name) for name in beside]
    named = {side: load_results([Path(side)]) for side in sides if Path(side).is_dir()}
    shipped_labels = {one.name for table in tables for one in table.entries}
    shipped_labels |= {run.label for table in tables for run in table.runs}
    needed = any(side not in shipped_labels for side in sides if side not in named)
    loaded = load_results(named_places(runs, runs_directory, needed=needed))
    of_sides = [{run.identity for run in results.runs} for results in named.values()]
    if sides[0] == sides[1] or (len(of_sides) > 1 and set.intersection(*of_sides)):
        raise UsageError(f"{sides[0]!r} would be compared with itself; expected two different labels or directories.")
    here = set().union(*of_sides)
    labels = _labels(named, {run.label for run in loaded.runs if run.identity not in here} | shipped_labels)
    everything = _joined(loaded, named, labels)
    one, other = (labels.get(side, side) for side in sides)
    anything = score_table(everything, tables, Choice(list(by), mix=True))
    # An unknown label is named before anything else that may be wrong; runs of other entries don't matter.
    compared = {run.identity for label in (one, other) for run in anything.entry(label).runs}
    both = [run for run in everything if run.identity in compared]
    pair = pairing(score_table(both, tables, Choice(list(by), mix=mix)), one, other)
    problems = [problem for problem in loaded.problems if _concerns(problem, (one, other))]
    return Comparison(pair, (*problems, *(problem for each in named.values() for problem in each.problems)))


def _concerns(problem: Problem, labels: Sequence[str]) -> bool:
    """Return whether a run that can't be used is, or may be, one of the entries of these labels."""
    try:
        entry = read_summary(RunPaths(problem.root)).entry
    except (RecordError, OSError):
        return True
    return any(label.startswith(entry) for label in labels)


def _joined(loaded: Results, named: dict[str, Results], labels: dict[str, str]) -> tuple[RunResult, ...]:
    """Return all runs, each once; those of a named place under the label that it has here."""
    here = {run.identity: replace(run, label=labels[side]) for side, each in named.items() for run in each.runs}
    return (*here.values(), *(run for run in loaded.runs if run.identity not in here))


def _labels(named: dict[str, Results], others: set[str]) -> dict[str, str]:
    """Return what the runs of each named place are called: their label, with the place where another bears it too."""
    found = {side: _one_label(side, results) for side, results in named.items()}
    taken = Counter([*found.values(), *others])
    return {side: label if taken[label] == 1 else f"{label} ({side})" for side, label in found.items()}


def _one_label(side: str, results: Results) -> str:
    labels = sorted({run.label for run in results.runs})
    if len(labels) != 1:
        found = ", ".join(labels) or f"no finished run ({len(results.problems)} that can't be used)"
        raise UsageError(f"Expected the runs of one entry in {side}, found: {found}. What works: an entry's label.")
    return labels[0]
