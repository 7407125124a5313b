"""Two runs side by side: their courses, and where they played the same held-out cases, the paired differences."""

from dataclasses import replace
from typing import Any

from evopolicygym.analysis.ranking.comparability import TableFilter, differences
from evopolicygym.analysis.ranking.pairing import pairing
from evopolicygym.analysis.ranking.score_table import score_table
from evopolicygym.core.errors import UsageError
from evopolicygym.core.text import shell_word
from evopolicygym.viewer.documents.overview import ViewedRun, listed

FIRST, SECOND = "first", "second"


def compare_bundle(first: ViewedRun, second: ViewedRun) -> dict[str, Any]:
    """Return two runs in short and how their held-out returns differ; ``why`` tells where they can't be compared."""
    runs, rows = (first, second), (first.row, second.row)
    bundle = {
        "runs": [listed(run, None, "random_anchor") | {"curve": run.curve} for run in runs],
        "why": "", "command": "", "difference": None, "pairs": [], "notes": [],
    }  # fmt: skip
    if rows[0].task != rows[1].task:
        tasks = " and ".join(row.task for row in rows)
        return bundle | {"why": f"The runs are of two tasks, {tasks}: their returns have nothing in common."}
    if not all(run.is_finished for run in runs):
        return bundle | {"why": "A run is not finished yet; its held-out returns are known once it is."}
    table = score_table([replace(first.row, agent=FIRST), replace(second.row, agent=SECOND)], (), TableFilter(mix=True))
    try:
        pair = pairing(table, FIRST, SECOND)
    except UsageError as error:
        return bundle | {"why": str(error)}
    task = pair.tasks[0]
    directories = [shell_word(run.directory.given or run.directory.shown) for run in runs]
    mixed = ["--allow-incomparable"] if differences(rows, ()) else []
    return bundle | {
        "command": " ".join(["evopolicygym compare", *directories, *mixed]),
        "difference": {
            "mean": task.difference,
            "interval": [task.interval.low, task.interval.high] if task.interval else None,
            "interval_covers": task.covers,
            "paired": task.paired,
        },
        "pairs": list(zip(*(row.held_out_returns for row in rows), strict=True)) if task.paired else [],
        "notes": list(pair.notes),
    }
