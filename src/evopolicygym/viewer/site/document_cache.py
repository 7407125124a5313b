"""The documents of static pages: those of all runs first, then run by run within a share of the size limit.

They have the same names and contents as the documents that ``view`` serves.
"""

import base64
import gzip
import hashlib
import json
import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import combinations
from pathlib import Path
from typing import Any

from evopolicygym.analysis.run_tables import RunTables
from evopolicygym.core.cases import Split
from evopolicygym.core.check_result import ProgressTracker, no_progress
from evopolicygym.core.errors import EvoPolicyGymError
from evopolicygym.core.strict_json import dumps
from evopolicygym.viewer.documents.documents import Documents
from evopolicygym.viewer.documents.reading import shown
from evopolicygym.viewer.documents.suite import suite_name

MOST_COMPARED = 16
"""The largest number of a task's best runs that are compared in pairs."""
_SAFE = re.compile(r"[^A-Za-z0-9_]+")


class Episodes(StrEnum):
    """The episodes whose steps are included."""

    NONE = "none"
    SELECTED = "selected"
    """Episodes of the selected checkpoint: train, validation and held-out."""
    ALL = "all"
    """Train episodes of every submission, and hidden episodes of the selected checkpoint."""


@dataclass(frozen=True, slots=True)
class CachedDocument:
    """A document in static pages."""

    name: str
    address: str
    """Relative to the page."""
    packed: str
    """Its JSON, gzipped, in base64."""


@dataclass(frozen=True, slots=True)
class CachedFilm:
    """A film in static pages."""

    address: str
    """Relative to the page."""
    path: Path


@dataclass(slots=True)
class CacheTally:
    """Counts and sizes of the contents of static pages."""

    documents: int = 0
    films: int = 0
    bytes: int = 0
    """Bytes of documents and films, which are limited."""
    written: int = 0
    """Bytes of all written files, including the page."""
    left_out: int = 0
    """Documents that exceeded the limit."""


@dataclass(frozen=True, slots=True)
class SuiteDocuments:
    """The documents about all runs."""

    documents: tuple[CachedDocument, ...]
    problems: Mapping[str, str]
    """Errors of documents that could not be built, by name."""
    runs: tuple[str, ...]
    """Ids of runs, whose documents follow."""
    films: tuple[CachedFilm, ...]
    """Films on the pages of tasks."""


@dataclass(slots=True)
class _RunDocuments:
    """The included documents of a run."""

    names: dict[str, str] = field(default_factory=dict)
    """Addresses by name."""
    problems: dict[str, str] = field(default_factory=dict)


class DocumentCache:
    """Builds and counts the documents of static pages."""

    def __init__(self, documents: Documents, episodes: Episodes, most_bytes: int, *, films: bool) -> None:
        self.tally = CacheTally()
        self._documents = documents
        self._episodes = episodes
        self._most_bytes = most_bytes
        self._films = films
        self._pairs: Mapping[str, Sequence[str]] = {}

    def common(self, shipped: Sequence[str], follow: ProgressTracker = no_progress) -> SuiteDocuments:
        """Return the list of runs, the leaderboards with shipped tables and without any, the audit, and all tasks."""
        listed = json.loads(self._documents.document("runs"))
        self._pairs = pairs(listed["runs"])
        names = [
            "runs",
            *dict.fromkeys([suite_name(()), suite_name(shipped)]),
            "audit",
            *(f"task/{task['task']}" for task in listed["tasks"]),
            *(f"experiment/{name}" for name in sorted({run["experiment_id"] for run in listed["runs"]} - {None})),
        ]
        documents, films, problems = list[CachedDocument](), list[CachedFilm](), dict[str, str]()
        for name in follow("leaderboards and tasks", names):
            content = self._build(name, problems)
            if content is not None:
                films += self._task_films(content)
                documents.append(CachedDocument(name, f"data/{_file_name(name)}.js", _pack(content)))
        self._count(documents)
        for film in films:
            self._count_film(film)
        return SuiteDocuments(tuple(documents), problems, tuple(self._documents.index.directories()), tuple(films))

    def of_runs(
        self, runs: Sequence[str], follow: ProgressTracker = no_progress
    ) -> Iterator[CachedDocument | CachedFilm]:
        """Yield each run's documents and their index; each run gets an equal share of the remaining size."""
        for index, run in enumerate(follow("pages of runs", runs)):
            room = max(0, self._most_bytes - self.tally.bytes) // (len(runs) - index)
            contents = _RunDocuments()
            yield from self._of_run(run, room, contents)
            name = f"run/{run}/contents"
            last = CachedDocument(
                name, f"data/{name}.js", _pack({"names": contents.names, "problems": contents.problems})
            )
            self._count([last])
            yield last

    def _of_run(self, run: str, room: int, contents: _RunDocuments) -> Iterator[CachedDocument | CachedFilm]:
        until = self.tally.bytes + room
        always = [
            f"run/{run}",
            f"run/{run}/edits",
            f"run/{run}/audit",
            *(f"compare/{run}/{other}" for other in self._pairs.get(run, ())),
        ]
        yield from self._include(always, None, contents)
        if f"run/{run}" in contents.problems:
            return
        tables = self._documents.tables(self._documents.index.directory(run))
        for kind in ("submission", "source"):
            names = [f"run/{run}/{kind}/{number}" for number in range(len(tables.submissions))]
            yield from self._include(names, until, contents)
        transcript = f"run/{run}/transcript"
        first = self._build(f"{transcript}/0", contents.problems)
        pages = [f"{transcript}/{page}" for page in range(max(1, first["pages"]))] if first else []
        half = self.tally.bytes + max(0, until - self.tally.bytes) // 2
        yield from self._include(pages, half, contents)
        episodes = [f"run/{run}/episode/{name}" for name in episode_names(tables, self._episodes)]
        yield from self._include(episodes, until, contents)

    def _include(
        self, names: Sequence[str], until: int | None, contents: _RunDocuments
    ) -> Iterator[CachedDocument | CachedFilm]:
        """Yield documents, each episode followed by its pictures, until one exceeds the limit."""
        left = deque(names)
        while left:
            if until is not None and self.tally.bytes >= until:
                self.tally.left_out += len(left)
                return
            name = left.popleft()
            made = self._build(name, contents.problems)
            if made is None:
                continue
            film = self._film(name, made)
            document = CachedDocument(name, f"data/{name}.js", _pack(made))
            size = len(document.packed) + (film.path.stat().st_size if film else 0)
            if until is not None and self.tally.bytes + size > until:
                self.tally.left_out += 1 + len(left)
                return
            left.extendleft(reversed(picture_names(name, made)))
            contents.names[name] = document.address
            self._count([document])
            yield document
            if film:
                self._count_film(film)
                yield film

    def _count_film(self, film: CachedFilm) -> None:
        self.tally.films += 1
        self.tally.bytes += film.path.stat().st_size

    def _task_films(self, document: dict[str, Any]) -> list[CachedFilm]:
        """Return the films of a task's document."""
        return [
            CachedFilm(f"film/{film['run']}/{film['name']}.mp4", path)
            for case in document.get("films", ())
            for film in case["films"]
            if (path := self._documents.film(film["run"], film["name"]))
        ]

    def _film(self, name: str, made: dict[str, Any]) -> CachedFilm | None:
        """Return the film of an episode; if it is missing, remove it from the document."""
        if not made.get("film"):
            return None
        _, run, _, episode = name.split("/")
        path = self._documents.film(run, episode)
        if path is None:
            made["film"] = None
            return None
        return CachedFilm(f"film/{run}/{episode}.mp4", path)

    def _build(self, name: str, problems: dict[str, str]) -> dict[str, Any] | None:
        """Return a document without local paths and, if films are not included, without films."""
        local = self._documents.index.without_roots
        try:
            made: dict[str, Any] = json.loads(local(self._documents.document(name).decode()))
        except (EvoPolicyGymError, OSError) as error:
            problems[name] = local(shown(str(error)))
            return None
        if not self._films:
            nothing: dict[str, Any] = {"film": None, "films": []}
            made.update({key: nothing[key] for key in nothing if isinstance(made.get(key), dict | list)})
        return made

    def _count(self, documents: Iterable[CachedDocument]) -> None:
        for document in documents:
            self.tally.documents += 1
            self.tally.bytes += len(document.packed)


def episode_names(tables: RunTables, which: Episodes) -> list[str]:
    """Return the names of the included episodes of a run, the selected checkpoint's first."""
    if which is Episodes.NONE:
        return []
    selected = {row.submission: row.checkpoint for row in tables.submissions if row.is_selected}
    hidden = [
        f"{row.split}-{number}-{row.position}"
        for split in (Split.HELD_OUT, Split.VALIDATION)
        for number, checkpoint in selected.items()
        for row in tables.episodes
        if (row.split, row.checkpoint) == (split, checkpoint)
    ]
    train = [row for row in tables.episodes if row.submission is not None]
    train = [row for row in train if which is Episodes.ALL or row.submission in selected]
    train.sort(key=lambda row: row.submission not in selected)
    return [*hidden, *(f"{row.split}-{row.submission}-{row.position}" for row in train)]


def picture_names(name: str, document: Mapping[str, Any]) -> list[str]:
    """Return the names of an episode's documents of pictures; empty for other documents."""
    series = document.get("series")
    if not series or not series["pictures"]:
        return []
    return [f"{name}/pictures/{block}" for block in range(-(-len(series["t"]) // series["pictures_block"]))]


def pairs(runs: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the runs of the same task that each run is compared with, each pair once, ordered by id."""
    tasks = defaultdict(list)
    for run in runs:
        tasks[run["task"]].append(run)
    others_by_run = defaultdict(list)
    for own in tasks.values():
        best = sorted(own, key=_worst_last)[:MOST_COMPARED]
        for first, second in combinations(sorted(run["id"] for run in best), 2):
            others_by_run[first].append(second)
    return dict(others_by_run)


def _worst_last(run: Mapping[str, Any]) -> tuple[bool, float, str]:
    score = run["score"]  # a text if it is not finite
    is_known = isinstance(score, int | float)
    return not is_known, -score if is_known else 0.0, run["id"]


def _pack(document: Mapping[str, Any]) -> str:
    content = dumps(document).encode("utf-8", "replace")
    return base64.b64encode(gzip.compress(content, 6, mtime=0)).decode("ascii")


def _file_name(name: str) -> str:
    """Return a safe file name for a document whose name can contain untrusted text, such as a task's."""
    kind, _, rest = name.partition("/")
    if not rest:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:8]
    return f"{kind}/{_SAFE.sub('-', rest).strip('-')[:60]}-{digest}"
