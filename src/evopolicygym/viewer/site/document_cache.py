"""Which documents static pages keep, and in which order: those of all runs, then run by run within a share of a bound.

The documents are those that ``view`` serves, by the same names.
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
from itertools import chain, combinations
from pathlib import Path
from typing import Any

from evopolicygym.core.errors import EvoPolicyGymError
from evopolicygym.core.finding import ProgressTracker, no_progress
from evopolicygym.core.strict_json import dumps
from evopolicygym.viewer.documents.documents import Documents
from evopolicygym.viewer.documents.reading import shown
from evopolicygym.viewer.documents.suite import suite_name

MOST_COMPARED = 16
"""Runs of a task, the best first, that are compared two by two."""
_SAFE = re.compile(r"[^A-Za-z0-9_]+")


class Episodes(StrEnum):
    """Of which episodes the steps are kept."""

    NONE = "none"
    SELECTED = "selected"
    """Those of the selected checkpoint: train, validation and held-out."""
    ALL = "all"
    """Of every submission, and the hidden ones of the selected checkpoint."""


@dataclass(frozen=True, slots=True)
class CachedDocument:
    """A document that is kept."""

    name: str
    address: str
    """Relative to the page."""
    packed: str
    """Its JSON, gzipped, in base64."""


@dataclass(frozen=True, slots=True)
class CachedFilm:
    """A film that is kept."""

    address: str
    """Relative to the page."""
    path: Path


@dataclass(slots=True)
class CacheTally:
    """How much is kept."""

    documents: int = 0
    films: int = 0
    bytes: int = 0
    """Of documents and films, which the bound is of."""
    written: int = 0
    """Bytes of all files that were written, the page itself too."""
    left_out: int = 0
    """Documents that the bound left no room for."""


@dataclass(frozen=True, slots=True)
class SuiteDocuments:
    """The documents that tell of all runs."""

    documents: tuple[CachedDocument, ...]
    problems: Mapping[str, str]
    """What hindered the making of others, by name."""
    runs: tuple[str, ...]
    """Ids of runs, whose own documents come after."""
    films: tuple[CachedFilm, ...]
    """Those that a task's page shows side by side."""


@dataclass(slots=True)
class _RunDocuments:
    """Which documents of a run are kept."""

    names: dict[str, str] = field(default_factory=dict)
    """Addresses by name."""
    problems: dict[str, str] = field(default_factory=dict)


class DocumentCache:
    """Makes the documents of some runs that are kept, and counts them."""

    def __init__(self, documents: Documents, episodes: Episodes, most_bytes: int, *, films: bool) -> None:
        self.tally = CacheTally()
        self._documents = documents
        self._episodes = episodes
        self._most_bytes = most_bytes
        self._films = films
        self._pairs: Mapping[str, Sequence[str]] = {}

    def common(self, shipped: Sequence[str], follow: ProgressTracker = no_progress) -> SuiteDocuments:
        """Return the list of runs, the leaderboard with each choice of shipped tables beside it, and all tasks."""
        listed = json.loads(self._documents.document("runs"))
        self._pairs = pairs(listed["runs"])
        choices = chain.from_iterable(combinations(shipped, count) for count in range(len(shipped) + 1))
        names = ["runs", *(suite_name(one) for one in choices), *(f"task/{one['name']}" for one in listed["tasks"])]
        documents, films, problems = list[CachedDocument](), list[CachedFilm](), dict[str, str]()
        for name in follow("leaderboards and tasks", names):
            made = self._made(name, problems)
            if made is not None:
                films += self._side_by_side(made)
                documents.append(CachedDocument(name, f"data/{_file(name)}.js", _packed(made)))
        self._count(documents)
        for one in films:
            self._count_film(one)
        return SuiteDocuments(tuple(documents), problems, tuple(self._documents.index.places()), tuple(films))

    def of_runs(
        self, runs: Sequence[str], follow: ProgressTracker = no_progress
    ) -> Iterator[CachedDocument | CachedFilm]:
        """Yield each run's documents, and which of them there are: each run has an equal share of what room is left."""
        for place, run in enumerate(follow("pages of runs", runs)):
            room = max(0, self._most_bytes - self.tally.bytes) // (len(runs) - place)
            contents = _RunDocuments()
            yield from self._of_run(run, room, contents)
            name = f"run/{run}/contents"
            last = CachedDocument(
                name, f"data/{name}.js", _packed({"names": contents.names, "problems": contents.problems})
            )
            self._count([last])
            yield last

    def _of_run(self, run: str, room: int, contents: _RunDocuments) -> Iterator[CachedDocument | CachedFilm]:
        until = self.tally.bytes + room
        always = [f"run/{run}", f"run/{run}/edits", *(f"compare/{run}/{other}" for other in self._pairs.get(run, ()))]
        yield from self._held(always, None, contents)
        if f"run/{run}" in contents.problems:
            return
        about = json.loads(self._documents.document(f"run/{run}"))
        if not about["has_journal"]:
            return
        for kind in ("submission", "source"):
            names = [f"run/{run}/{kind}/{one['index']}" for one in about["submissions"]]
            yield from self._held(names, until, contents)
        transcript = f"run/{run}/transcript"
        first = self._made(f"{transcript}/0", contents.problems)
        pages = [f"{transcript}/{page}" for page in range(max(1, first["pages"]))] if first else []
        half = self.tally.bytes + max(0, until - self.tally.bytes) // 2
        yield from self._held(pages, half, contents)
        episodes = [f"run/{run}/episode/{name}" for name in episode_names(about, self._episodes)]
        yield from self._held(episodes, until, contents)

    def _held(
        self, names: Sequence[str], until: int | None, contents: _RunDocuments
    ) -> Iterator[CachedDocument | CachedFilm]:
        """Yield documents, an episode's pictures after it, up to the first for which there is no room."""
        left = deque(names)
        while left:
            if until is not None and self.tally.bytes >= until:
                self.tally.left_out += len(left)
                return
            name = left.popleft()
            made = self._made(name, contents.problems)
            if made is None:
                continue
            film = self._film(name, made)
            document = CachedDocument(name, f"data/{name}.js", _packed(made))
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

    def _side_by_side(self, made: dict[str, Any]) -> list[CachedFilm]:
        """Return the films of a task's document."""
        return [
            CachedFilm(f"film/{one['run']}/{one['name']}.mp4", path)
            for case in made.get("films", ())
            for one in case["films"]
            if (path := self._documents.film(one["run"], one["name"]))
        ]

    def _film(self, name: str, made: dict[str, Any]) -> CachedFilm | None:
        """Return the film of an episode; where it is gone, the document says that there is none."""
        if not made.get("film"):
            return None
        _, run, _, episode = name.split("/")
        path = self._documents.film(run, episode)
        if path is None:
            made["film"] = None
            return None
        return CachedFilm(f"film/{run}/{episode}.mp4", path)

    def _made(self, name: str, problems: dict[str, str]) -> dict[str, Any] | None:
        """Return a document without paths of this machine; where films are not kept, it says that there is none."""
        local = self._documents.index.without_roots
        try:
            made: dict[str, Any] = json.loads(local(self._documents.document(name).decode()))
        except (EvoPolicyGymError, OSError) as error:
            problems[name] = local(shown(str(error)))
            return None
        if not self._films:
            made.update({key: nothing for key, nothing in (("film", None), ("films", [])) if key in made})
        return made

    def _count(self, documents: Iterable[CachedDocument]) -> None:
        for one in documents:
            self.tally.documents += 1
            self.tally.bytes += len(one.packed)


def episode_names(run: Mapping[str, Any], which: Episodes) -> list[str]:
    """Return the names of episodes whose steps are wanted, those of the selected checkpoint first, held-out before all.

    ``run`` is a run's document. Episodes that have not been played have none.
    """
    if which is Episodes.NONE:
        return []
    hidden = [
        f"{split}-{run['selected']}-{case}"
        for split, one in reversed(run["hidden"].items())
        for case, episode in enumerate(one["episodes"])
        if episode
    ]
    submissions = sorted(run["submissions"], key=lambda one: (not one["selected"], one["index"]))
    train = [
        f"train-{one['index']}-{position}"
        for one in submissions
        if which is Episodes.ALL or one["selected"]
        for position, episode in enumerate(one["episodes"])
        if episode
    ]
    return [*hidden, *train]


def picture_names(name: str, document: Mapping[str, Any]) -> list[str]:
    """Return the names of the documents that hold what the policy saw in an episode; none of any other document."""
    series = document.get("series")
    if not series or not series["pictures"]:
        return []
    return [f"{name}/pictures/{block}" for block in range(-(-len(series["t"]) // series["pictures_block"]))]


def pairs(runs: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return for each run those of the same task that it is compared with, each two once, in the order of their ids."""
    tasks = defaultdict(list)
    for run in runs:
        tasks[run["task"]].append(run)
    found = defaultdict(list)
    for own in tasks.values():
        best = sorted(own, key=_worst_last)[:MOST_COMPARED]
        for one, other in combinations(sorted(run["id"] for run in best), 2):
            found[one].append(other)
    return dict(found)


def _worst_last(run: Mapping[str, Any]) -> tuple[bool, float, str]:
    score = run["score"]  # a text where it is no finite number
    is_known = isinstance(score, int | float)
    return not is_known, -score if is_known else 0.0, run["id"]


def _packed(document: Mapping[str, Any]) -> str:
    content = dumps(document).encode("utf-8", "replace")
    return base64.b64encode(gzip.compress(content, 6, mtime=0)).decode("ascii")


def _file(name: str) -> str:
    """Return a file's name for a document whose name holds untrusted text, a task's for one."""
    kind, _, rest = name.partition("/")
    if not rest:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:8]
    return f"{kind}/{_SAFE.sub('-', rest).strip('-')[:60]}-{digest}"
