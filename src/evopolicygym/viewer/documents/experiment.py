"""The page of an experiment: who played which task how often, what is missing, and what its runs have in common."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evopolicygym.core.errors import UsageError
from evopolicygym.core.score import estimate
from evopolicygym.viewer.documents.suite import IN_LISTS


def experiment_bundle(identity: str, overviews: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return an experiment's tasks by entries, missing runs and options; raise ``UsageError`` where no run is of it."""
    own = [overview for overview in overviews if identity and overview["experiment"] == identity]
    if not own:
        raise UsageError(f"No run here is of an experiment {identity[:80]!r}.")
    cells = defaultdict(list)
    for run in own:
        cells[run["task"], run["entry"]].append(run)
    tasks, entries = sorted({run["task"] for run in own}), sorted({run["entry"] for run in own})
    repeats = max(map(len, cells.values()))
    return {
        "id": identity,
        "name": next((run["experiment_name"] for run in own if run["experiment_name"]), ""),
        "tasks": tasks,
        "entries": entries,
        "repeats": repeats,
        "cells": [_cell(task, entry, cells[task, entry], repeats) for task in tasks for entry in entries],
        "secrets": sorted({"revealed" if run["revealed"] else run["split"] for run in own}),
        "spent": sum(run["spent"] for run in own),
        "budget": sum(run["budget"] for run in own),
        "options": _options([run["options"] for run in own]),
        "runs": [{key: run[key] for key in IN_LISTS} for run in own],
    }


def _cell(task: str, entry: str, runs: Sequence[Mapping[str, Any]], repeats: int) -> dict[str, Any]:
    """Return an entry's mean score on a task over its runs; of a single run, with its error over cases."""
    scored = [run for run in runs if run["score"] is not None]
    mean = estimate([run["score"] for run in scored]) if scored else None
    error = scored[0]["standard_error"] if len(scored) == 1 else mean.standard_error if mean else None
    return {
        "task": task,
        "entry": entry,
        "runs": [run["id"] for run in runs],
        "finished": sum(run["stage"] == "finished" for run in runs),
        "missing": repeats - len(runs),
        "mean": mean.mean if mean else None,
        "standard_error": error,
    }


def _options(all_options: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """Return the options that all runs share, and the values of the others with how many runs have each."""
    counts = {name: Counter(options[name] for options in all_options) for name in all_options[0]}
    return {
        "shared": {name: next(iter(values)) for name, values in counts.items() if len(values) == 1},
        "differing": {name: values.most_common() for name, values in counts.items() if len(values) > 1},
    }
