"""The page of an experiment: who played which task how often, what is missing, and what its runs have in common."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evopolicygym.analysis.ranking.comparability import TableFilter
from evopolicygym.analysis.ranking.score_table import score_table
from evopolicygym.core.errors import UsageError
from evopolicygym.records.rows import RunRow
from evopolicygym.viewer.documents.suite import Groups, by_entry_and_group, in_lists


def experiment_bundle(
    identity: str, overviews: Iterable[Mapping[str, Any]], groups: Groups, results: Mapping[str, RunRow]
) -> dict[str, Any]:
    """Return an experiment's tasks by entries, missing runs and options; raise ``UsageError`` where no run is of it.

    An entry whose runs are of several groups that may not be compared has a column for each.
    """
    own = [overview for overview in overviews if identity and overview["experiment"] == identity]
    if not own:
        raise UsageError(f"No run here is of an experiment {identity[:80]!r}.")
    cells = defaultdict(list)
    for run in own:
        cells[run["task"], (run["entry"], groups.get(run["id"]))].append(run)
    tasks = sorted({run["task"] for run in own})
    entries = sorted({(run["entry"], groups.get(run["id"])) for run in own}, key=by_entry_and_group)
    repeats = max(map(len, cells.values()))
    return {
        "id": identity,
        "name": next((run["experiment_name"] for run in own if run["experiment_name"]), ""),
        "tasks": tasks,
        "entries": [{"entry": entry, "group": group} for entry, group in entries],
        "repeats": repeats,
        "cells": [_cell(task, column, cells[task, column], repeats, results) for task in tasks for column in entries],
        "secrets": sorted({"revealed" if run["revealed"] else run["split"] for run in own}),
        "spent": sum(run["spent"] for run in own),
        "budget": sum(run["budget"] for run in own),
        "options": _options([run["options"] for run in own]),
        "runs": in_lists(own, groups),
    }


def _cell(
    task: str,
    column: tuple[str, str | None],
    runs: Sequence[Mapping[str, Any]],
    repeats: int,
    results: Mapping[str, RunRow],
) -> dict[str, Any]:
    """Return an entry's mean score on a task over its runs with its standard error, as the leaderboard has both."""
    finished = [results[run["id"]] for run in runs if run["id"] in results]
    score = score_table(finished, (), TableFilter(mix=True)).entries[0].cells[task] if finished else None
    return {
        "task": task,
        "entry": column[0],
        "group": column[1],
        "runs": [run["id"] for run in runs],
        "finished": sum(run["stage"] == "finished" for run in runs),
        "missing": repeats - len(runs),
        "mean": score.mean if score and score.has_score else None,
        "standard_error": score.standard_error if score else None,
    }


def _options(all_options: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """Return the options that all runs share, and the values of the others with how many runs have each."""
    counts = {name: Counter(options[name] for options in all_options) for name in all_options[0]}
    return {
        "shared": {name: next(iter(values)) for name, values in counts.items() if len(values) == 1},
        "differing": {name: values.most_common() for name, values in counts.items() if len(values) > 1},
    }
