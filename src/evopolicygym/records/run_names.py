"""Which runs are meant: by path, by id or the beginning of it, as ``latest``, or all below a directory.

What the experiment of a run is called is the name of the directory that it lies in.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from evopolicygym.core import regular_file
from evopolicygym.core.errors import RecordError, UsageError
from evopolicygym.core.places import DEFAULT_RUNS

Places = str | Path | Iterable[str | Path]
"""A run (its directory, its id, the beginning of one, or ``latest``), a directory with runs below, or several."""
EXPERIMENT_FILE = "experiment.json"
"""Lies in an experiment's directory and holds its identity."""
MOST_EXPERIMENT = 1 << 20
"""Bytes of it that are read: it holds an identity and nothing else."""
LATEST = "latest"
KNOWN_BY = frozenset({"journal.jsonl", "run.json"})
"""Files of which one at least lies in a run's directory; who reads results needs no more than the second."""
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
            raise UsageError(_none(below))
        matching = by_id[max(by_id, key=lambda run_id: _age(run_id, by_id[run_id]))]
    else:
        matching = [root for run_id, roots in by_id.items() if run_id.startswith(asked) for root in roots]
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise UsageError(f"{len(matching)} runs match {asked!r}; give a path, or more of the id:{_listed(matching)}")
    newest = [root for run_id in sorted(by_id) for root in by_id[run_id]]
    if not newest:
        raise UsageError(f"No run {asked!r}. {_none(below)}")
    raise UsageError(
        f"No run {asked!r} in {below}. Give a path, an id prefix, or {LATEST}. Runs there:{_listed(newest)}"
    )


def named_places(runs: Places | None, below: str | Path = DEFAULT_RUNS, *, needed: bool = True) -> list[Path]:
    """Return the directories that are meant, of runs and of what has runs below; ids are looked for in ``below``.

    Where nothing is named, that is ``below`` itself, if runs are needed or ``below`` isn't the default. Raises
    ``UsageError`` for an id that no run has.
    """
    below = Path(below)
    if runs is None:
        return [below] if needed or below != DEFAULT_RUNS else []
    several = map(Path, [runs] if isinstance(runs, str | Path) else runs)
    return [one if one == below else named_run(one, below) for one in several]


def find_runs(below: Path, known_by: frozenset[str] = frozenset({"journal.jsonl"})) -> Iterator[Path]:
    """Yield the directories of all runs below a directory, in the order of their paths.

    A run is known by any of the files ``known_by``; where only its ``run.json`` was kept, that may be among them.
    """
    for directory, directories, files in os.walk(below):
        directories.sort()
        if not known_by.isdisjoint(files):
            directories.clear()  # a run holds no other, and what is in it may come and go while it is played
            yield Path(directory)


def runs_meant(given: Iterable[Path]) -> list[Path]:
    """Return the directories of all runs that are meant, each once: a run's own, or all below a directory.

    A directory without runs is returned as it is, so that who reads it says what it lacks.
    """
    return list(dict.fromkeys(root for path in given for root in (list(find_runs(path)) or [path])))


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
    where = f"./{below}" if not below.is_absolute() and below.parts[:1] != ("..",) else str(below)
    return f"No runs yet in {where}. Play one: evopolicygym run acrobot; or look elsewhere: --runs DIR"


def _listed(roots: list[Path]) -> str:
    more = f"\n  and {len(roots) - LISTED} older" if len(roots) > LISTED else ""
    return "".join(f"\n  {root}" for root in reversed(roots[-LISTED:])) + more


def experiment_name(run: Path, identity: str) -> str:
    """Return the name of a run's experiment: that of the directory above it that is the experiment's; empty if none."""
    for directory in run.parents:
        if _identity(directory / EXPERIMENT_FILE) == identity:
            return directory.name
    return ""


def _identity(file: Path) -> str | None:
    try:
        document = json.loads(regular_file.read(file, MOST_EXPERIMENT))
    except (OSError, RecordError, ValueError, RecursionError):
        return None
    return str(document.get("experiment")) if isinstance(document, dict) else None
