"""The overview of runs: finding runs in given directories, and the summary of each."""

import hashlib
import re
import stat
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any

from evopolicygym.core.errors import UsageError
from evopolicygym.core.score import best_so_far
from evopolicygym.core.text import shell_word, without_directories
from evopolicygym.records.atomic import is_locked
from evopolicygym.records.checked import CheckedRun
from evopolicygym.records.labels import labels_path
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import DOCUMENT, JOURNAL, Problem, scan
from evopolicygym.records.rows import RunRow
from evopolicygym.records.tables import run_row
from evopolicygym.viewer.documents.document import document
from evopolicygym.viewer.documents.ending import Ending, ending
from evopolicygym.viewer.documents.reading import shown

SCAN_S = 1.0
"""Seconds for which the list of runs is taken to be as it was."""
SCANNING = 0.1
"""Seconds of a scan from which on the list is kept longer, so that scanning takes at most a tenth of the time."""
_NAME = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """A run and its directory."""

    id: str
    root: Path
    shown: str
    """Its path below the directory that was asked for."""
    given: str = ""
    """Its path as a command takes it: that of the directory, as it was given, and the path below."""

    @property
    def paths(self) -> RunPaths:
        """The paths in the run directory."""
        return RunPaths(self.root)

    def stamp(self) -> str:
        """Return what changes whenever the record does."""
        files = " ".join(_stamp(path) for path in (self.paths.journal, self.paths.document, labels_path(self.root)))
        return f"{files} {'played' if self.is_played else ''}"

    @property
    def is_played(self) -> bool:
        """Whether a process holds the run's lock."""
        return is_locked(self.paths.lock)

    def activity(self) -> dict[str, Any]:
        """Return what is shown of an unfinished run: who plays it, its last write, and how to resume it if possible."""
        try:
            written = datetime.fromtimestamp(self.paths.journal.lstat().st_mtime, UTC).isoformat(timespec="seconds")
        except OSError:
            written = None
        command = f"evopolicygym resume {shell_word(self.given or self.shown)}" if written else ""
        return {"is_played": self.is_played, "last_activity": written, "resume": command}


class RunIndex:
    """All runs at or below some directories."""

    def __init__(self, below: Sequence[Path]) -> None:
        """Look for runs; raise ``UsageError`` where a directory isn't there."""
        for path in below:
            if not path.is_dir():
                raise UsageError(f"{path} is no directory; expected the directory of a run, or one with runs below it.")
        self._below = [(path.resolve(), path) for path in below]
        self._lock = Lock()
        self._directories: Mapping[str, RunDirectory] = {}
        self._problems: tuple[Problem, ...] = ()
        self._scanned = float("-inf")
        self._scan_s = 0.0

    def directories(self) -> Mapping[str, RunDirectory]:
        """Return all runs by their ids, in the order of their paths."""
        with self._lock:
            if time.monotonic() - self._scanned > SCAN_S * max(1, self._scan_s / SCANNING):
                began = time.monotonic()
                runs, problems = dict[str, RunDirectory](), list[Problem]()
                for top, given in self._below:
                    for item in scan(top):
                        if isinstance(item, Problem):
                            problems.append(Problem(_below(top, item.root), item.reason))
                        elif run := _directory(top, given, item):
                            runs[run.id] = run
                self._directories, self._problems = runs, tuple(problems)
                self._scanned = time.monotonic()
                self._scan_s = self._scanned - began
            return self._directories

    def problems(self) -> tuple[Problem, ...]:
        """Return what can't be read or is no run, as paths below the directories."""
        self.directories()
        return self._problems

    def directory(self, run_id: str) -> RunDirectory:
        """Return a run by its id here, or by the id of its record or the beginning of that; else ``UsageError``."""
        runs = self.directories()
        run = runs.get(run_id)
        if run is None and len(named := [item for item in runs.values() if item.root.name.startswith(run_id)]) == 1:
            run = named[0]
        if run is None:
            raise UsageError(f"There is no run {run_id[:80]!r} here; it may have been moved or removed.")
        return run

    def stamp(self) -> str:
        """Return what changes whenever any run does, comes or goes."""
        total = hashlib.sha256()
        for directory in self.directories().values():
            total.update(f"{directory.id} {directory.stamp()}\n".encode())
        return total.hexdigest()

    def words(self) -> str:
        """Return the directories that were asked for, as words of a command."""
        return " ".join(shell_word(given) for _, given in self._below)

    def without_roots(self, text: str) -> str:
        """Return a text with no path to the directories that were asked for: only what lies below is named."""
        return without_directories(text, [path for pair in self._below for path in pair])


def _directory(top: Path, given: Path, root: Path) -> RunDirectory | None:
    """Return a run's place; None where its journal and document are links: they may lead anywhere."""
    if any((root / name).is_symlink() for name in (JOURNAL, DOCUMENT)):
        return None
    inside = _below(top, root).as_posix()
    digest = hashlib.sha256(f"{top.name}/{inside}".encode("utf-8", "replace")).hexdigest()[:6]
    name = _NAME.sub("-", root.name).strip("-.")[:60] or "run"
    return RunDirectory(f"{name}-{digest}", root, inside, str(given / inside if root != top else given))


def _below(top: Path, root: Path) -> Path:
    return root.relative_to(top) if root != top else Path(root.name)


def _stamp(path: Path) -> str:
    try:
        status = path.lstat()
    except OSError:
        return "-"
    return f"{status.st_mtime_ns}.{status.st_size}" if not stat.S_ISLNK(status.st_mode) else "link"


LISTED = (
    "run_id", "record", "unchecked", "task", "family", "kind", "agent", "seed", "experiment", "experiment_id", "split",
    "stage", "status", "ended_by", "is_early", "score", "score_standard_error", "success_rate", "selected_submission",
    "budget", "spent", "submissions", "tokens", "cost_usd", "cost_is_lower_bound", "price", "opened_at", "finished_at",
    "name", "tags", "note",
)  # fmt: skip
"""The columns of a run's row that lists of runs have."""
OPTIONS = (
    "agent_kind", "model", "effort", "limits", "budget", "min_episodes", "max_episodes", "max_submissions",
    "finish_allowed", "text", "interface", "world", "feedback", "memory", "skill", "train_cases", "validation_cases",
    "held_out_cases", "policy_packages", "split", "isolation", "protocol_version",
)  # fmt: skip
"""Those that an experiment's page compares."""


@dataclass(frozen=True, slots=True)
class ViewedRun:
    """A run that pages show."""

    directory: RunDirectory
    row: RunRow
    ended: Ending | None
    is_played: bool
    """Whether a process plays it."""
    is_finished: bool
    """Whether tables have it."""

    @property
    def options(self) -> dict[str, str]:
        """The run's options as pages have them."""
        values = {name: getattr(self.row, name) for name in OPTIONS}
        return {name: "none" if value in (None, "") else shown(str(value)) for name, value in values.items()}

    @property
    def curve(self) -> list[tuple[int, float]]:
        """Episodes spent and the best validation mean by then, wherever it grows, and at the end."""
        bests = best_so_far(point.validation_mean for point in self.row.curve)
        points: list[tuple[int, float]] = []
        for point, best in zip(self.row.curve, bests, strict=True):
            if best is not None and not (points and points[-1][1] == best):
                points.append((point.spent, best))
        spent = self.row.curve[-1].spent if self.row.curve else 0
        return [*points, (spent, points[-1][1])] if points and points[-1][0] < spent else points


def viewed_run(directory: RunDirectory, run: CheckedRun) -> ViewedRun:
    """Return a run as pages show it."""
    summary = run.summary
    is_played = not summary.is_finished and directory.is_played
    return ViewedRun(directory, run_row(run), ending(summary), is_played, summary.is_finished)


def listed(run: ViewedRun, group: str | None, *more: str) -> dict[str, Any]:
    """Return a run as lists of runs have it, with ``more`` columns of its row."""
    return {
        "id": run.directory.id,
        "directory": shown(run.directory.shown),
        "group": group,
        **document(run, "ended", "is_played"),
        **document(run.row, *LISTED, *more),
    }
