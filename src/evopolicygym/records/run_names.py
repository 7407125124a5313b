"""What a person may call a run by: its directory's path, its id or the beginning of it, or ``latest``."""

import re
from pathlib import Path

from evopolicygym.core.errors import UsageError
from evopolicygym.records.reader import KNOWN_BY, find_runs

LATEST = "latest"
RUN_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{4}", re.ASCII)
"""A run's id, which its directory is named by: when it began in UTC, and two random bytes."""
LISTED = 8
"""The most runs that a message lists."""


def named_run(name: Path, below: Path) -> Path:
    """Return the directory that a person means; raise ``UsageError`` where none is, or several are.

    What exists as a path is that path; else runs below a directory are looked for by their ids.
    """
    if name.exists() or len(name.parts) != 1:
        return name
    asked = str(name)
    by_id = _by_id(below)
    if asked == LATEST:
        if not by_id:
            raise UsageError(f"The latest run was asked for; {_none(below)}")
        matching = by_id[max(by_id, key=lambda run_id: _age(run_id, by_id[run_id]))]
    else:
        matching = [root for run_id, roots in by_id.items() if run_id.startswith(asked) for root in roots]
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise UsageError(
            f"{asked} could be any of {len(matching)} runs; give its path, or more of its id:{_listed(matching)}"
        )
    newest = [root for run_id in sorted(by_id) for root in by_id[run_id]]
    found = f"no run below {below} has an id that begins so. Found there:{_listed(newest)}" if newest else _none(below)
    raise UsageError(
        f"{asked} does not exist; a run's directory, its id or the beginning of it, or {LATEST} is asked for, and "
        f"{found}"
    )


def run_ids(below: Path) -> list[str]:
    """Return the ids of all runs below a directory, the newest first."""
    return sorted(_by_id(below), reverse=True)


def _by_id(below: Path) -> dict[str, list[Path]]:
    """Return the directories of runs below a directory by their ids; a copy beside its original has the same."""
    found: dict[str, list[Path]] = {}
    for root in find_runs(below, KNOWN_BY):
        if RUN_ID.fullmatch(root.name):
            found.setdefault(root.name, []).append(root)
    return found


def _age(run_id: str, roots: list[Path]) -> tuple[str, int]:
    """Return what sorts runs by when they began: the time in an id is of whole seconds, and its end is random."""
    begun = [(root / name).stat().st_mtime_ns for root in roots for name in KNOWN_BY if (root / name).is_file()]
    return run_id.rpartition("-")[0], max(begun, default=0)


def _none(below: Path) -> str:
    where = (
        f"there is no run below {below}" if below.is_dir() else f"{below}, where runs are looked for, is no directory"
    )
    return f"{where}. --runs DIR names where to look."


def _listed(roots: list[Path]) -> str:
    more = f"\n  and {len(roots) - LISTED} older" if len(roots) > LISTED else ""
    return "".join(f"\n  {root}" for root in reversed(roots[-LISTED:])) + more
