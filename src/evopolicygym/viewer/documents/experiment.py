"""The page of an experiment: who played which task how often, what is missing, and what its runs have in common."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evopolicygym.analysis.ranking.comparability import TableFilter
from evopolicygym.analysis.ranking.score_table import score_table
from evopolicygym.core.errors import UsageError
from evopolicygym.viewer.documents.overview import ViewedRun, listed
from evopolicygym.viewer.documents.suite import Groups, by_entry_and_group


def experiment_bundle(identity: str, runs: Iterable[ViewedRun], groups: Groups) -> dict[str, Any]:
    """Return an experiment's tasks by entries, missing runs and options; raise ``UsageError`` where no run is of it.

    An entry whose runs are of several groups that may not be compared has a column for each.
    """
    own = [run for run in runs if identity and run.row.experiment_id == identity]
    if not own:
        raise UsageError(f"No run here is of an experiment {identity[:80]!r}.")
    cells = defaultdict(list)
    for run in own:
        cells[run.row.task, (run.row.agent, groups.get(run.directory.id))].append(run)
    tasks = sorted({task for task, _ in cells})
    entries = sorted({entry for _, entry in cells}, key=by_entry_and_group)
    repeats = max(map(len, cells.values()))
    return {
        "experiment_id": identity,
        "experiment": next((run.row.experiment_name for run in own if run.row.experiment_name), "") or identity,
        "tasks": tasks,
        "entries": [{"entry": entry, "group": group} for entry, group in entries],
        "repeats": repeats,
        "cells": [
            {"task": task, "entry": entry[0], "group": entry[1], **_cell(cells[task, entry], repeats)}
            for task in tasks
            for entry in entries
        ],
        "secrets": sorted({"revealed" if run.row.revealed else run.row.split or "" for run in own}),
        "spent": sum(run.row.spent for run in own),
        "budget": sum(run.row.budget for run in own),
        "options": _options([run.options for run in own]),
        "runs": [listed(run, groups.get(run.directory.id)) for run in own],
    }


def _cell(runs: Sequence[ViewedRun], repeats: int) -> dict[str, Any]:
    """Return an entry's mean score on a task over its runs with its standard error, as the leaderboard has both."""
    rows = [run.row for run in runs if run.is_finished]
    score = score_table(rows, (), TableFilter(mix=True)).entries[0].cells[rows[0].task] if rows else None
    return {
        "runs": [run.directory.id for run in runs],
        "finished": len(rows),
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
