"""The suite's page: all runs in short, and the leaderboard of those that are finished."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from evopolicygym.analysis.published.score_tables import (
    PublishedTable,
    other_figures,
    other_names,
    paper,
    shipped,
    shipped_names,
)
from evopolicygym.analysis.ranking.comparability import TableFilter
from evopolicygym.analysis.ranking.leaderboard import leaderboard
from evopolicygym.analysis.ranking.score_table import score_table
from evopolicygym.analysis.tables.contents import leaderboard_document
from evopolicygym.analysis.tables.published import figures_note
from evopolicygym.core.errors import UsageError
from evopolicygym.records.rows import RunRow

IN_LISTS = (
    "id", "place", "task", "family", "kind", "entry", "seed", "experiment", "experiment_name", "split", "stage",
    "status", "ended_by", "is_early", "score", "standard_error", "success_rate", "selected", "budget", "spent",
    "submissions", "opened_at", "finished_at", "tokens", "cost", "cost_is_lower_bound", "price", "is_played", "name",
    "tags", "note", "record", "unchecked",
)  # fmt: skip
"""Fields of each run in a list; curves and returns are on the task's page."""


def settings_bundle(beside: Sequence[str]) -> dict[str, Any]:
    """Return what pages begin with: the shipped tables that there are, and those that stand beside the runs at first.

    Raises ``UnknownName`` where there is no table of a name.
    """
    for name in beside:
        shipped(name)
    known = shipped_names()
    return {
        "shipped": [
            {"name": name, "source": shipped(name).source, "entries": _entries_of(shipped(name))} for name in known
        ],
        "beside": [name for name in known if name in beside],
    }


def _entries_of(table: PublishedTable) -> list[str]:
    """Return the names of a table's entries."""
    return list(dict.fromkeys([*(entry.name for entry in table.entries), *(run.agent for run in table.runs)]))


def suite_name(beside: Iterable[str]) -> str:
    """Return the name of the leaderboard's document with these shipped tables beside, in the order of the settings."""
    names = ",".join(beside)
    return f"suite/{names}" if names else "suite"


def runs_bundle(overviews: Iterable[Mapping[str, Any]], problems: Iterable[Mapping[str, str]]) -> dict[str, Any]:
    """Return all runs in short, the latest first, and those that can't be read."""
    runs = [{key: overview[key] for key in IN_LISTS} for overview in overviews]
    tasks: dict[str, dict[str, Any]] = {}
    for run in runs:
        task = tasks.setdefault(run["task"], {"name": run["task"], "family": run["family"], "runs": 0})
        task["runs"] += 1
    return {
        "runs": sorted(runs, key=lambda item: item["opened_at"], reverse=True),
        "tasks": sorted(tasks.values(), key=lambda task: (task["family"], task["name"])),
        "problems": list(problems),
        "entries": list(dict.fromkeys(run["entry"] for run in sorted(runs, key=lambda run: run["opened_at"]))),
    }


def suite_bundle(
    results: Sequence[RunRow], ids: Mapping[Path, str], shipped: Sequence[PublishedTable]
) -> dict[str, Any]:
    """Return the leaderboard of finished runs beside shipped tables; what hinders it stands under ``trouble``."""
    trouble = ""
    try:
        try:
            table = score_table(results, shipped)
        except UsageError as error:
            table = score_table(results, shipped, TableFilter(mix=True))
            trouble = str(error)
        board = leaderboard(table)
    except UsageError as error:
        return {"tasks": [], "entries": [], "notes": [], "trouble": str(error)}
    found = leaderboard_document(board)
    del found["problems"]
    for entry in found["entries"]:
        for score in entry["tasks"].values():
            score["runs"] = [ids[Path(root)] for root in score["runs"] if Path(root) in ids]
    return {**found, "trouble": trouble.replace("--mix", "what is done here")}


def task_bundle(name: str, overviews: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return all runs of a task with their curves and returns; raise ``UsageError`` where there is none."""
    own = [overview for overview in overviews if overview["task"] == name]
    if not own:
        raise UsageError(f"No run here is of a task named {name[:80]!r}.")
    entries = defaultdict(list)
    for item in own:
        entries[item["entry"]].append(item)
    published = paper().scores(name) if all(item["is_published"] for item in own) else {}
    return {
        "name": name,
        "family": own[0]["family"],
        "kind": own[0]["kind"],
        "random": next((item["random"] for item in own if item["random"] is not None), None),
        "idle": next((item["idle"] for item in own if item["idle"] is not None), None),
        "budget": max(item["budget"] for item in own),
        "commitments": len({item["commitment"] for item in own}),
        "entries": [{"entry": entry, "runs": runs} for entry, runs in sorted(entries.items())],
        "published": [{"entry": entry, "score": score} for entry, score in published.items()],
        "published_source": paper().source,
        "published_elsewhere": _elsewhere({item["environment_id"] for item in own}),
    }


def _elsewhere(gymnasium_ids: Iterable[str]) -> list[str]:
    """Return what was published of environments under other protocols, a sentence each that says so."""
    known = [other_figures(name) for name in other_names()]
    return [figures_note(found) for id_ in gymnasium_ids for item in known if (found := item.of_game(id_))]


def relabelled(result: RunRow, label: str) -> RunRow:
    """Return a run under another entry's name, to be compared with one of the same entry."""
    return replace(result, agent=label)
