"""The suite's page: all runs in short, and a leaderboard for each group of finished runs that may be compared."""

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
from evopolicygym.analysis.ranking.comparability import TableFilter, group_comparable
from evopolicygym.analysis.ranking.leaderboard import leaderboard
from evopolicygym.analysis.ranking.score_table import score_tables
from evopolicygym.analysis.results import set_copies_apart
from evopolicygym.analysis.tables.contents import leaderboards_document
from evopolicygym.analysis.tables.published import figures_note
from evopolicygym.core.errors import UsageError
from evopolicygym.records.rows import RunRow

Groups = Mapping[str, str]
"""The titles of runs' groups by the runs' ids; a run that is in none yet is missing."""
IN_LISTS = (
    "id", "place", "task", "family", "kind", "entry", "seed", "experiment", "experiment_name", "split", "stage",
    "status", "ended_by", "is_early", "score", "standard_error", "success_rate", "selected", "budget", "spent",
    "submissions", "opened_at", "finished_at", "tokens", "cost", "cost_is_lower_bound", "price", "is_played", "name",
    "tags", "note", "record", "unchecked", "ended",
)  # fmt: skip
"""Fields of each run in a list; curves and returns are on the task's page."""


def settings_bundle(beside: Sequence[str], *, are_kept: bool = False) -> dict[str, Any]:
    """Return what pages begin with: the shipped tables that there are, and those that stand beside the runs at first.

    Pages that ``are_kept`` on a disk have the leaderboard with these tables and the one without any, and one switch.
    Raises ``UnknownName`` where there is no table of a name.
    """
    for name in beside:
        shipped(name)
    known = [name for name in shipped_names() if name in beside or not are_kept]
    return {
        "shipped": [
            {"name": name, "source": shipped(name).source, "entries": _entries_of(shipped(name))} for name in known
        ],
        "beside": [name for name in known if name in beside],
        "together": are_kept,
    }


def _entries_of(table: PublishedTable) -> list[str]:
    """Return the names of a table's entries."""
    return list(dict.fromkeys([*(entry.name for entry in table.entries), *(run.agent for run in table.runs)]))


def suite_name(beside: Iterable[str]) -> str:
    """Return the name of the leaderboard's document with these shipped tables beside, in the order of the settings."""
    names = ",".join(beside)
    return f"suite/{names}" if names else "suite"


def runs_bundle(
    overviews: Iterable[Mapping[str, Any]], problems: Iterable[Mapping[str, str]], groups: Groups
) -> dict[str, Any]:
    """Return all runs in short, the latest first, and those that can't be read."""
    runs = in_lists(overviews, groups)
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


def in_lists(overviews: Iterable[Mapping[str, Any]], groups: Groups) -> list[dict[str, Any]]:
    """Return runs as lists have them."""
    return [{**{key: run[key] for key in IN_LISTS}, "group": groups.get(run["id"])} for run in overviews]


def groups_of(results: Mapping[str, RunRow], overviews: Sequence[Mapping[str, Any]]) -> Groups:
    """Return the title of each run's group, as ``evopolicygym leaderboard`` has it without shipped tables.

    A run that isn't finished is with the finished runs of its entry that were given the same options, if there are any.
    """
    runs, _ = set_copies_apart(results.values())
    titles = {run.identity: group.title for group in group_comparable(runs, (), TableFilter()) for run in group.runs}
    found = {id_: titles[result.identity] for id_, result in results.items()}
    alike = {_settings(run): found[run["id"]] for run in overviews if run["id"] in found}
    return found | {
        run["id"]: alike[_settings(run)] for run in overviews if run["id"] not in found and _settings(run) in alike
    }


def _settings(run: Mapping[str, Any]) -> tuple[object, ...]:
    return run["entry"], run["experiment"], run["isolation"], tuple(run["options"].items())


def suite_bundle(
    results: Sequence[RunRow], ids: Mapping[Path, str], tables: Sequence[PublishedTable]
) -> dict[str, Any]:
    """Return the leaderboards that ``evopolicygym leaderboard`` shows: one for each group of comparable runs."""
    if not results and not tables:
        return {"groups": []}
    runs, _ = set_copies_apart(results)
    boards = {title: leaderboard(table) for title, table in score_tables(runs, tables).items()}
    of_groups = {group.title: group.runs for group in group_comparable(runs, tables, TableFilter())}
    document = leaderboards_document(boards)
    groups = document.get("tables") or [{"title": next(iter(boards)), **document}]
    for group in groups:
        group.pop("problems", None)
        group["runs"] = [ids[run.root] for run in of_groups[group["title"]] if run.root in ids]
        for entry in group["entries"]:
            for score in entry["tasks"].values():
                score["runs"] = [ids[Path(root)] for root in score["runs"] if Path(root) in ids]
    return {"groups": groups}


def task_bundle(name: str, overviews: Iterable[Mapping[str, Any]], groups: Groups) -> dict[str, Any]:
    """Return all runs of a task with their curves and returns; raise ``UsageError`` where there is none.

    Runs of an entry are together where they are repeats of one another: where they are of one group.
    """
    own = [overview for overview in overviews if overview["task"] == name]
    if not own:
        raise UsageError(f"No run here is of a task named {name[:80]!r}.")
    entries = defaultdict(list)
    for item in own:
        group = groups.get(item["id"])
        entries[item["entry"], group].append({**item, "group": group})
    published = paper().scores(name) if all(item["is_published"] for item in own) else {}
    return {
        "name": name,
        "family": own[0]["family"],
        "kind": own[0]["kind"],
        "random": next((item["random"] for item in own if item["random"] is not None), None),
        "idle": next((item["idle"] for item in own if item["idle"] is not None), None),
        "budget": max(item["budget"] for item in own),
        "commitments": len({item["commitment"] for item in own}),
        "entries": [
            {"entry": entry, "group": group, "runs": runs}
            for (entry, group), runs in sorted(entries.items(), key=lambda item: by_entry_and_group(item[0]))
        ],
        "published": [{"entry": entry, "score": score} for entry, score in published.items()],
        "published_source": paper().source,
        "published_elsewhere": _elsewhere({item["environment_id"] for item in own}),
    }


def by_entry_and_group(key: tuple[str, str | None]) -> tuple[str, bool, str]:
    """Return what entries are sorted by; runs that are in no group yet are the last of each."""
    entry, group = key
    return entry, group is None, group or ""


def _elsewhere(gymnasium_ids: Iterable[str]) -> list[str]:
    """Return what was published of environments under other protocols, a sentence each that says so."""
    known = [other_figures(name) for name in other_names()]
    return [figures_note(found) for id_ in gymnasium_ids for item in known if (found := item.of_game(id_))]


def relabelled(result: RunRow, label: str) -> RunRow:
    """Return a run under another entry's name, to be compared with one of the same entry."""
    return replace(result, agent=label)
