"""The suite's page: all runs in short, and a leaderboard for each group of finished runs that may be compared."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
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
from evopolicygym.viewer.documents.document import document
from evopolicygym.viewer.documents.overview import ViewedRun, listed

Groups = Mapping[str, str]
"""The titles of runs' groups by the runs' ids; a run that is in none yet is missing."""


def settings_bundle(table_names: Sequence[str], *, are_kept: bool = False) -> dict[str, Any]:
    """Return what pages begin with: the shipped tables that there are, and those that stand beside the runs at first.

    Pages that ``are_kept`` on a disk have the leaderboard with these tables and the one without any, and one switch.
    Raises ``UnknownName`` where there is no table of a name.
    """
    for name in table_names:
        shipped(name)
    known = [name for name in shipped_names() if name in table_names or not are_kept]
    return {
        "shipped": [
            {"name": name, "source": shipped(name).source, "entries": _entries_of(shipped(name))} for name in known
        ],
        "tables": [name for name in known if name in table_names],
        "together": are_kept,
    }


def _entries_of(table: PublishedTable) -> list[str]:
    """Return the names of a table's entries."""
    return list(dict.fromkeys([*(entry.name for entry in table.entries), *(run.agent for run in table.runs)]))


def suite_name(table_names: Iterable[str]) -> str:
    """Return the name of the leaderboard's document with these shipped tables beside, in the order of the settings."""
    names = ",".join(table_names)
    return f"suite/{names}" if names else "suite"


def runs_bundle(runs: Sequence[ViewedRun], problems: Sequence[Mapping[str, str]], groups: Groups) -> dict[str, Any]:
    """Return all runs in short, the latest first, and those that can't be read."""
    latest = sorted(runs, key=lambda run: run.row.opened_at, reverse=True)
    tasks = Counter((run.row.family, run.row.task) for run in runs)
    return {
        "runs": [listed(run, groups.get(run.directory.id)) for run in latest],
        "tasks": [{"task": task, "family": family, "runs": count} for (family, task), count in sorted(tasks.items())],
        "problems": list(problems),
        "entries": list(dict.fromkeys(run.row.agent for run in reversed(latest))),
    }


def groups_of(runs: Iterable[ViewedRun]) -> Groups:
    """Return the title of each run's group, as ``evopolicygym leaderboard`` has it without shipped tables.

    A run that isn't finished is with the finished runs of its entry that were given the same options, if there are any.
    """
    runs = list(runs)
    finished = [run for run in runs if run.is_finished]
    rows, _ = set_copies_apart(run.row for run in finished)
    titles = {row.identity: group.title for group in group_comparable(rows, (), TableFilter()) for row in group.runs}
    titles_by_run = {run.directory.id: titles[run.row.identity] for run in finished}
    alike = {_settings(run): titles_by_run[run.directory.id] for run in finished}
    others = [run for run in runs if not run.is_finished and _settings(run) in alike]
    return titles_by_run | {run.directory.id: alike[_settings(run)] for run in others}


def _settings(run: ViewedRun) -> tuple[object, ...]:
    return run.row.agent, run.row.experiment_id, *run.options.items()


def suite_bundle(finished: Sequence[ViewedRun], tables: Sequence[PublishedTable]) -> dict[str, Any]:
    """Return the leaderboards that ``evopolicygym leaderboard`` shows: one for each group of comparable runs."""
    if not finished and not tables:
        return {"groups": []}
    ids = {run.row.root: run.directory.id for run in finished}
    runs, _ = set_copies_apart(run.row for run in finished)
    boards = {title: leaderboard(table) for title, table in score_tables(runs, tables).items()}
    of_groups = {group.title: group.runs for group in group_comparable(runs, tables, TableFilter())}
    leaderboards = leaderboards_document(boards)
    groups = leaderboards.get("tables") or [{"title": next(iter(boards)), **leaderboards}]
    for group in groups:
        group.pop("problems", None)
        group["runs"] = [ids[run.root] for run in of_groups[group["title"]] if run.root in ids]
        for entry in group["entries"]:
            for score in entry["tasks"].values():
                score["runs"] = [ids[Path(root)] for root in score["runs"] if Path(root) in ids]
    return {"groups": groups}


def task_bundle(task: str, runs: Iterable[ViewedRun], groups: Groups) -> dict[str, Any]:
    """Return all runs of a task with their curves and returns; raise ``UsageError`` where there is none.

    Runs of an entry are together where they are repeats of one another: where they are of one group.
    """
    own = [run for run in runs if run.row.task == task]
    if not own:
        raise UsageError(f"No run here is of a task named {task[:80]!r}.")
    rows = [run.row for run in own]
    entries = defaultdict(list)
    for run in own:
        group = groups.get(run.directory.id)
        drawn = listed(run, group, "held_out_returns") | {"curve": run.curve}
        entries[run.row.agent, group].append(drawn)
    published = paper().scores(task) if all(paper().has(task, row.environment) for row in rows) else {}
    return {
        **document(rows[0], "task", "family", "kind"),
        "random_anchor": document(next((row.random_anchor for row in rows if row.random_anchor), None)),
        "idle_anchor": document(next((row.idle_anchor for row in rows if row.idle_anchor), None)),
        "budget": max(row.budget for row in rows),
        "commitments": len({row.commitment for row in rows}),
        "entries": [
            {"entry": entry, "group": group, "runs": drawn}
            for (entry, group), drawn in sorted(entries.items(), key=lambda item: by_entry_and_group(item[0]))
        ],
        "published": [{"entry": entry, "score": score} for entry, score in published.items()],
        "published_source": paper().source,
        "published_elsewhere": _elsewhere({row.environment_id or "" for row in rows}),
    }


def by_entry_and_group(key: tuple[str, str | None]) -> tuple[str, bool, str]:
    """Return what entries are sorted by; runs that are in no group yet are the last of each."""
    entry, group = key
    return entry, group is None, group or ""


def _elsewhere(gymnasium_ids: Iterable[str]) -> list[str]:
    """Return what was published of environments under other protocols, a sentence each that says so."""
    known = [other_figures(name) for name in other_names()]
    return [figures_note(figures) for id_ in gymnasium_ids for item in known if (figures := item.of_id(id_))]
