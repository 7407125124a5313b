"""Two runs side by side: their courses, and where they played the same held-out cases, the paired differences."""

from collections.abc import Mapping
from typing import Any

from evopolicygym.analysis.ranking.comparability import TableFilter, differences
from evopolicygym.analysis.ranking.pairing import pairing
from evopolicygym.analysis.ranking.score_table import score_table
from evopolicygym.core.errors import UsageError
from evopolicygym.core.text import shell_word
from evopolicygym.records.rows import RunRow
from evopolicygym.viewer.documents.suite import relabelled

FIRST, SECOND = "first", "second"


def compare_bundle(
    runs: tuple[Mapping[str, Any], Mapping[str, Any]],
    results: tuple[RunRow | None, RunRow | None],
    places: tuple[str, str],
) -> dict[str, Any]:
    """Return two runs in short and how their held-out returns differ; ``why`` tells where they can't be compared.

    ``places`` are their directories as a command takes them.
    """
    one, other = runs
    why = ""
    if one["task"] != other["task"]:
        why = f"The runs are of two tasks, {one['task']} and {other['task']}: their returns have nothing in common."
    elif results[0] is None or results[1] is None:
        why = "A run is not finished yet; its held-out returns are known once it is."
    found = {"runs": [dict(one), dict(other)], "why": why, "command": "", "difference": None, "pairs": [], "notes": []}
    first, second = results
    if why or first is None or second is None:
        return found
    table = score_table([relabelled(first, FIRST), relabelled(second, SECOND)], (), TableFilter(mix=True))
    try:
        pair = pairing(table, FIRST, SECOND)
    except UsageError as error:
        return {**found, "why": str(error)}
    task = pair.tasks[0]
    returns = first.held_out_returns, second.held_out_returns
    mixed = ["--allow-incomparable"] if differences([first, second], ()) else []
    return {
        **found,
        "command": " ".join(["evopolicygym compare", *map(shell_word, places), *mixed]),
        "difference": {
            "mean": task.difference,
            "interval": [task.interval.low, task.interval.high] if task.interval else None,
            "interval_covers": task.covers,
            "paired": task.paired,
        },
        "pairs": [list(pair) for pair in zip(*returns, strict=True)] if task.paired else [],
        "notes": list(pair.notes),
    }
