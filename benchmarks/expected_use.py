"""How far off estimates of a run's time are, for shipped runs that are left out one at a time.

    python benchmarks/expected_use.py               20 of the shipped runs
    python benchmarks/expected_use.py --runs 148    all of them

Each run is estimated from the others: from all of them, without the runs of the same agent on the same task, and so
on, so that the other bases are seen too, down to the task's episodes alone. Others count as the user's own, as all were
played on one machine. A factor of 2 is a run that took half as long as was estimated. What is expected is a mean, so
its sum over runs is to be that of the true times. Shipped runs asked no model that was counted, so tokens and money
can't be compared.
"""

import argparse
import math
from collections.abc import Iterable, Sequence
from statistics import fmean, median

from rich.console import Console
from rich.table import Table

from evopolicygym.analysis.expected_use import Basis, PlannedUse, PlayedRuns
from evopolicygym.analysis.published.score_tables import shipped
from evopolicygym.core.agent import OUTSIDE
from evopolicygym.records.rows import RunRow
from evopolicygym.runs.expected_use import SHIPPED
from evopolicygym.runs.suites.schedule import episode_seconds

EXCLUDED = {
    Basis.SAME: frozenset[Basis](),
    Basis.TASK: frozenset({Basis.SAME}),
    Basis.AGENT: frozenset({Basis.SAME, Basis.TASK}),
    Basis.EPISODES: frozenset({Basis.SAME, Basis.TASK, Basis.AGENT}),
}


def planned_of(run: RunRow) -> PlannedUse:
    """Return what was known of a run before it was played."""
    agent = run.agent_kind, run.model or "", run.effort or ""
    sizes = run.budget, run.validation_cases or 0, len(run.held_out_returns)
    return PlannedUse(run.task, *agent, *sizes, asks_model=run.agent_kind == OUTSIDE)


def basis_of(run: RunRow, other: RunRow) -> Basis | None:
    """Return what another run is to a run; None where it tells nothing of it."""
    same_agent, same_task = planned_of(run).is_by_agent_of(other), run.task == other.task
    if same_task:
        return Basis.SAME if same_agent else Basis.TASK
    return Basis.AGENT if same_agent else None


def factors(runs: Sequence[RunRow], everything: Sequence[RunRow], basis: Basis) -> Iterable[tuple[float, float, bool]]:
    """Yield each run's estimated time on a basis, its true time, and whether its range has the latter."""
    for run in runs:
        others = tuple(
            other for other in everything if other is not run and other.run_id != run.run_id
            and basis_of(run, other) not in EXCLUDED[basis]
        )  # fmt: skip
        found = PlayedRuns(others, episode_seconds=episode_seconds).estimate(planned_of(run)).seconds
        if found and found.basis.startswith(basis) and run.wall_seconds:
            yield found.expected, run.wall_seconds, found.low <= run.wall_seconds <= found.high


def main() -> None:
    """Print a row for each basis."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20, help="how many of the shipped runs are left out")
    asked = parser.parse_args()
    every = sorted(
        (run for name in SHIPPED for run in shipped(name).runs), key=lambda run: (run.agent_kind, run.task, run.run_id)
    )
    step = len(every) / min(asked.runs, len(every))
    chosen = [every[int(place * step)] for place in range(min(asked.runs, len(every)))]
    table = Table(
        "basis", "runs", "estimate / true, median", "sums", "too high", "off by, median", "off by, largest", "in range"
    )
    for basis in Basis:
        found = list(factors(chosen, every, basis))
        logs = [math.log(estimated / true) for estimated, true, _ in found]
        off = [math.exp(abs(value)) for value in logs]
        table.add_row(
            basis.value,
            str(len(found)),
            f"{math.exp(median(logs)):.2f}",
            f"{sum(estimated for estimated, *_ in found) / sum(true for _, true, _ in found):.2f}",
            f"{sum(value > 0 for value in logs)} of {len(logs)}",
            f"x{median(off):.2f}",
            f"x{max(off):.1f}",
            f"{sum(inside for *_, inside in found)} of {len(found)}",
        )
        deviation = math.sqrt(fmean(value * value for value in logs))
        Console().print(f"{basis.value}: root mean square of the logarithm {deviation:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
