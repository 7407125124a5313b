"""The overview of runs: finding runs in given directories, and the summary of each."""

import hashlib
import re
import stat
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import accumulate
from pathlib import Path
from threading import Lock
from typing import Any

from evopolicygym.analysis.published.score_tables import paper
from evopolicygym.core.agent import PriceSnapshot
from evopolicygym.core.errors import UsageError
from evopolicygym.core.run_summary import SubmissionSummary
from evopolicygym.core.score import best_so_far
from evopolicygym.core.submission import SubmissionStatus
from evopolicygym.core.text import shell_word, without_directories
from evopolicygym.records.atomic import is_locked
from evopolicygym.records.checked import CheckedRun
from evopolicygym.records.labels import labels_path
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import DOCUMENT, JOURNAL, Problem, scan
from evopolicygym.records.rows import RunRow
from evopolicygym.records.tables import run_row
from evopolicygym.specs.games import game_of
from evopolicygym.viewer.documents.ending import ending
from evopolicygym.viewer.documents.reading import shown

SCAN_S = 1.0
"""Seconds for which the list of runs is taken to be as it was."""
SCANNING = 0.1
"""Seconds of a scan from which on the list is kept longer, so that scanning takes at most a tenth of the time."""
_NAME = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class RunPlace:
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
        self._places: Mapping[str, RunPlace] = {}
        self._problems: tuple[Problem, ...] = ()
        self._scanned = float("-inf")
        self._scan_s = 0.0

    def places(self) -> Mapping[str, RunPlace]:
        """Return all runs by their ids, in the order of their paths."""
        with self._lock:
            if time.monotonic() - self._scanned > SCAN_S * max(1, self._scan_s / SCANNING):
                began = time.monotonic()
                places, problems = dict[str, RunPlace](), list[Problem]()
                for top, given in self._below:
                    for found in scan(top):
                        if isinstance(found, Problem):
                            problems.append(Problem(_below(top, found.root), found.reason))
                        elif place := _place(top, given, found):
                            places[place.id] = place
                self._places, self._problems = places, tuple(problems)
                self._scanned = time.monotonic()
                self._scan_s = self._scanned - began
            return self._places

    def problems(self) -> tuple[Problem, ...]:
        """Return what can't be read or is no run, as paths below the directories."""
        self.places()
        return self._problems

    def place(self, run_id: str) -> RunPlace:
        """Return a run by its id here, or by the id of its record or the beginning of that; else ``UsageError``."""
        places = self.places()
        found = places.get(run_id)
        if found is None and len(named := [item for item in places.values() if item.root.name.startswith(run_id)]) == 1:
            found = named[0]
        if found is None:
            raise UsageError(f"There is no run {run_id[:80]!r} here; it may have been moved or removed.")
        return found

    def stamp(self) -> str:
        """Return what changes whenever any run does, comes or goes."""
        total = hashlib.sha256()
        for place in self.places().values():
            total.update(f"{place.id} {place.stamp()}\n".encode())
        return total.hexdigest()

    def words(self) -> str:
        """Return the directories that were asked for, as words of a command."""
        return " ".join(shell_word(given) for _, given in self._below)

    def without_roots(self, text: str) -> str:
        """Return a text with no path to the directories that were asked for: only what lies below is named."""
        return without_directories(text, [path for places in self._below for path in places])


def _place(top: Path, given: Path, root: Path) -> RunPlace | None:
    """Return a run's place; None where its journal and document are links: they may lead anywhere."""
    if any((root / name).is_symlink() for name in (JOURNAL, DOCUMENT)):
        return None
    inside = _below(top, root).as_posix()
    digest = hashlib.sha256(f"{top.name}/{inside}".encode("utf-8", "replace")).hexdigest()[:6]
    name = _NAME.sub("-", root.name).strip("-.")[:60] or "run"
    return RunPlace(f"{name}-{digest}", root, inside, str(given / inside if root != top else given))


def _below(top: Path, root: Path) -> Path:
    return root.relative_to(top) if root != top else Path(root.name)


def _stamp(path: Path) -> str:
    try:
        found = path.lstat()
    except OSError:
        return "-"
    return f"{found.st_mtime_ns}.{found.st_size}" if not stat.S_ISLNK(found.st_mode) else "link"


SUMMARY = {
    "run_id": "run_id",
    "entry": "agent",
    "seed": "seed",
    "experiment": "experiment_id",
    "split": "split",
    "stage": "stage",
    "status": "status",
    "ended_by": "ended_by",
    "is_early": "is_early",
    "selected": "selected_submission",
    "budget": "budget",
    "spent": "spent",
}
"""The columns of a run's row that every page of a run has, by the names that pages have them by."""
OVERVIEW = SUMMARY | {
    "task": "task",
    "family": "family",
    "kind": "kind",
    "environment_id": "environment_id",
    "commitment": "commitment",
    "score": "score",
    "standard_error": "score_standard_error",
    "success_rate": "success_rate",
    "submissions": "submissions",
    "isolation": "isolation",
    "films": "films",
    "tokens": "tokens",
    "cost": "cost_usd",
    "cost_is_lower_bound": "cost_is_lower_bound",
}
"""Those that the overview has."""
OPTIONS = (
    "agent_kind", "model", "effort", "limits", "budget", "min_episodes", "max_episodes", "max_submissions",
    "finish_allowed", "text", "interface", "feedback", "memory", "train_cases", "validation_cases", "held_out_cases",
    "policy_packages", "split", "isolation", "protocol_version",
)  # fmt: skip
"""The columns of a run's row that an experiment's page compares."""


def columns_of(row: RunRow, names: Mapping[str, str]) -> dict[str, Any]:
    """Return columns of a run's row by the names that a page has them by."""
    return {name: _as_json(getattr(row, column)) for name, column in names.items()}


def _as_json(value: Any) -> Any:  # noqa: ANN401 - a cell of any column
    match value:
        case str():
            return shown(str(value))
        case datetime():
            return value.isoformat()
    return value


def overview(place: RunPlace, run: CheckedRun) -> dict[str, Any]:
    """Return a run in short."""
    summary = run.summary
    environment, row = summary.task.environment, run_row(run)
    return {
        "id": place.id,
        "place": shown(place.shown),
        **columns_of(row, OVERVIEW),
        **labels_of(row),
        "price": _price_key(row.price),
        "experiment_name": shown(row.experiment_name),
        "record": row.record.value,
        "unchecked": shown(row.unchecked or ""),
        "revealed": row.revealed,
        "ended": ending(summary),
        "options": {name: _option_text(getattr(row, name)) for name in OPTIONS},
        "returns": list(row.held_out_returns),
        "curve": learning_curve(summary.submissions),
        "is_published": paper().has(environment.name, game_of(environment)),
        "random": environment.random_anchor.mean if environment.random_anchor else None,
        "idle": environment.idle_anchor.mean if environment.idle_anchor else None,
        "opened_at": row.opened_at.isoformat(),
        "finished_at": row.finished_at.isoformat() if row.finished_at else None,
        "is_played": not summary.is_finished and place.is_played,
    }


def _price_key(price: PriceSnapshot | None) -> str:
    """Return a text that two prices share exactly if costs at them can be added; empty if unknown."""
    return "" if price is None else hashlib.sha256(repr(price.terms).encode()).hexdigest()[:12]


def _option_text(value: object) -> str:
    """Return an option's value as pages have it."""
    return "none" if value in (None, "") else shown(str(value))


def labels_of(row: RunRow) -> dict[str, Any]:
    """Return a run's name, tags and note as pages have them."""
    return {"name": shown(row.name or ""), "tags": list(map(shown, row.tags or ())), "note": shown(row.note or "")}


def learning_curve(submissions: Sequence[SubmissionSummary]) -> list[list[float]]:
    """Return episodes spent and the best validation mean by then, wherever it grows, and at the end."""
    spent = list(accumulate(submission.n_episodes for submission in submissions))
    bests = best_so_far(
        submission.validation_mean if submission.status is SubmissionStatus.OK else None for submission in submissions
    )
    points: list[list[float]] = []
    for at, best in zip(spent, bests, strict=True):
        if best is not None and not (points and points[-1][1] == best):
            points.append([at, best])
    return [*points, [spent[-1], points[-1][1]]] if points and points[-1][0] < spent[-1] else points
