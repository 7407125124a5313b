"""Documents by name, created on request and cached while they are valid, in a bounded amount of memory."""

import hashlib
import os
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any, Generic, TypeVar

from evopolicygym.analysis.conduct.audit_run import Conduct, audit_run, load_detectors
from evopolicygym.analysis.published.score_tables import shipped
from evopolicygym.analysis.run_tables import RunTables, tables_of
from evopolicygym.core.agent import MODEL_LOG
from evopolicygym.core.errors import EvoPolicyGymError, RecordError
from evopolicygym.core.strict_json import dumps
from evopolicygym.records.checked import look_at_run, open_run
from evopolicygym.records.reader import RunRecord, is_secret_shared, read_run
from evopolicygym.version import __version__
from evopolicygym.viewer.documents.audit import audit_bundle, run_audit_bundle
from evopolicygym.viewer.documents.change import Files, change, source_bundle, starter_files, submission_files
from evopolicygym.viewer.documents.compare import compare_bundle
from evopolicygym.viewer.documents.edits import edits_bundle
from evopolicygym.viewer.documents.episode import episode_bundle
from evopolicygym.viewer.documents.experiment import experiment_bundle
from evopolicygym.viewer.documents.overview import RunDirectory, RunIndex, ViewedRun, viewed_run
from evopolicygym.viewer.documents.pictures import films_bundle, pictures_bundle
from evopolicygym.viewer.documents.reading import below, film_named, find_episode, shown
from evopolicygym.viewer.documents.run import ModelUse, model_uses, run_bundle
from evopolicygym.viewer.documents.submission import submission_bundle
from evopolicygym.viewer.documents.suite import Groups, groups_of, runs_bundle, suite_bundle, task_bundle
from evopolicygym.viewer.documents.transcript import Index, transcript_index, transcript_page

MOST_BYTES = 48 << 20
"""Most bytes of cached documents."""
MOST_RECORDS = 6
"""Runs whose whole record is kept."""
MOST_INDEXES = 32
MOST_FOLDERS = 2000
"""Most films that are checked for additions."""
OWN_KINDS = ("edits", "submission", "change", "source")
"""Documents of a submission."""
SLOW_KINDS = ("run/audit", *(f"run/{kind}" for kind in OWN_KINDS))
"""Documents of a run whose making an agent's files can prolong: they hold up none but their like."""
KINDS = ("pulse", "runs", "suite", "audit", "task", "experiment", "run", "compare", *SLOW_KINDS)
"""Kinds of documents by prefixes of their names; two of a kind are not created concurrently."""
_NUMBER = re.compile(r"\d{1,7}", re.ASCII)

Thing = TypeVar("Thing")


class NoSuchDocument(EvoPolicyGymError):
    """No document has this name."""


class _Cache(Generic[Thing]):
    """The last few things that were made, each as long as its stamp is the same."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._things: OrderedDict[str, tuple[str, Thing]] = OrderedDict()
        self._lock = Lock()

    def get(self, name: str, stamp: str, make: Callable[[], Thing]) -> Thing:
        """Return what is kept under a name where it is still true, else what is made."""
        with self._lock:
            cached = self._things.get(name)
            if cached and cached[0] == stamp:
                self._things.move_to_end(name)
                return cached[1]
        made = make()
        with self._lock:
            self._things[name] = stamp, made
            while len(self._things) > self._most:
                self._things.popitem(last=False)
        return made


class Documents:
    """All documents about the runs of an index; may be asked from any thread."""

    def __init__(self, index: RunIndex) -> None:
        self.index = index
        self._documents: OrderedDict[str, tuple[str, bytes]] = OrderedDict()
        self._held = 0
        self._lock = Lock()
        self._making = {kind: Lock() for kind in KINDS}
        self._tables: _Cache[RunTables] = _Cache(MOST_RECORDS)
        self._indexes: _Cache[Index] = _Cache(MOST_INDEXES)
        self._uses: _Cache[tuple[ModelUse, ...]] = _Cache(MOST_RECORDS)
        self._runs: dict[str, tuple[str, ViewedRun | str]] = {}
        self._groups: tuple[str, Groups] = ("", {})
        self._conducts: dict[str, tuple[str, Conduct | str]] = {}

    def tag(self, name: str) -> str:
        """Return what a document's name and content go by, without making it; it changes whenever the record does."""
        words = name.split("/")
        directories = [self.index.directory(word) for word in self._runs_named(words)]
        stamp = " ".join(f"{directory.stamp()} {_grown(directory)} {_added(directory)}" for directory in directories)
        stamp = stamp or f"{self.index.stamp()} {self._added_to(words[0])}"
        if words[0] == "run" and words[2:3] == ["episode"]:
            film = self.film(words[1], words[3] if len(words) > 3 else "")  # noqa: PLR2004 - run, id, episode, name
            stamp += f" {film} {film.stat().st_mtime_ns if film else ''}"
        return hashlib.sha256(f"{__version__} {name} {stamp}".encode()).hexdigest()[:24]

    def document(self, name: str) -> bytes:
        """Return a document as JSON text; raise ``NoSuchDocument``, or what hinders its making."""
        tag = self.tag(name)
        with self._lock:
            kept = self._documents.get(name)
            if kept and kept[0] == tag:
                self._documents.move_to_end(name)
                return kept[1]
            making = self._making.get(_kind(name))
        if making is None:
            raise NoSuchDocument(f"There is no document {name[:120]!r}.")
        with making:  # two pages that ask for the same leaderboard have it made once
            with self._lock:
                kept = self._documents.get(name)
            if kept and kept[0] == tag:
                return kept[1]
            content = dumps(self._made(name)).encode("utf-8", "replace")
            self._keep(name, tag, content)
            return content

    def film(self, run: str, episode: str) -> Path | None:
        """Return where the film of an episode lies; None where there is none."""
        return film_named(self._record(self.index.directory(run)), episode)

    def _keep(self, name: str, tag: str, content: bytes) -> None:
        with self._lock:
            before = self._documents.pop(name, None)
            self._held += len(content) - (len(before[1]) if before else 0)
            self._documents[name] = tag, content
            while self._held > MOST_BYTES and len(self._documents) > 1:
                self._held -= len(self._documents.popitem(last=False)[1][1])

    def _runs_named(self, words: Sequence[str]) -> list[str]:
        match words:
            case ["run", run, "change", _, other, _]:
                return [run, other]
            case ["run", run, *_]:
                return [run]
            case ["compare", one, other]:
                return [one, other]
        return []

    def _made(self, name: str) -> dict[str, Any]:
        match name.split("/"):
            case ["runs"]:
                return runs_bundle(*self._all(), self._run_groups())
            case ["suite"]:
                return self._suite(())
            case ["suite", tables]:
                return self._suite(tables.split(","))
            case ["audit"]:
                return audit_bundle({run.directory.id: self._conduct(run.directory) for run in self._finished()})
            case ["task", *words]:
                task = "/".join(words)
                return {
                    **task_bundle(task, self._all()[0], self._run_groups()),
                    "films": films_bundle(self._filmed(task)),
                }
            case ["experiment", *words]:
                identity = "/".join(words)
                bundle = experiment_bundle(identity, self._all()[0], self._run_groups())
                return {**bundle, "is_shared": is_secret_shared(identity)}
            case ["compare", one, other]:
                return self._compare(one, other)
            case ["run", run, *words]:
                return self._of_run(self.index.directory(run), words)
            case ["pulse"]:
                return {"tag": self.index.stamp()}
        raise NoSuchDocument(f"There is no document {name[:120]!r}.")

    def _of_run(self, directory: RunDirectory, words: Sequence[str]) -> dict[str, Any]:
        match words:
            case ["pulse"]:
                return {"tag": self.tag(f"run/{directory.id}")}
            case []:
                tables = self.tables(directory)
                return run_bundle(viewed_run(directory, tables.checked), tables)
            case ["audit"]:
                return run_audit_bundle(self._conduct(directory), self._record(directory), self._index(directory))
            case ["edits"]:
                return edits_bundle(self._record(directory))
            case ["episode", episode]:
                return episode_bundle(self.tables(directory), episode)
            case ["episode", episode, "pictures", block] if _NUMBER.fullmatch(block):
                record = self._record(directory)
                return pictures_bundle(record, find_episode(record, episode), int(block))
            case ["transcript", page] if _NUMBER.fullmatch(page):
                return transcript_page(
                    self._record(directory), self._index(directory), int(page), self._requests(directory)
                )
            case [kind, number, *base] if kind in OWN_KINDS and _NUMBER.fullmatch(number):
                return self._of_submission(directory, kind, int(number), base)
        raise NoSuchDocument(f"A run has no document {'/'.join(words)[:120]!r}.")

    def _of_submission(self, directory: RunDirectory, kind: str, number: int, base: Sequence[str]) -> dict[str, Any]:
        record = self._record(directory)
        match kind, base:
            case "submission", []:
                return submission_bundle(self.tables(directory), number)
            case "source", []:
                return source_bundle(submission_files(record, number))
            case "change", [_, *_]:
                return change(self._base(directory, base), submission_files(record, number))
        raise NoSuchDocument(f"A submission has no document {'/'.join([kind, *base])[:120]!r}.")

    def _base(self, directory: RunDirectory, words: Sequence[str]) -> Files:
        """Return what a submission is compared with: the starter, one of the same run, or one of another run."""
        match words:
            case ["starter"]:
                return starter_files()
            case [number] if _NUMBER.fullmatch(number):
                return submission_files(self._record(directory), int(number))
            case [run, number] if _NUMBER.fullmatch(number):
                return submission_files(self._record(self.index.directory(run)), int(number))
        raise NoSuchDocument(f"There is nothing {'/'.join(words)[:120]!r} to compare a submission with.")

    def _all(self) -> tuple[list[ViewedRun], list[dict[str, str]]]:
        """Return all runs, and those that can't be read, with why."""
        runs: list[ViewedRun] = []
        listed = ((shown(str(problem.root)), shown(problem.reason)) for problem in self.index.problems())
        problems = [{"run": "", "directory": path, "reason": reason} for path, reason in listed]
        for directory in self.index.directories().values():
            run = self._run(directory)
            if isinstance(run, str):
                problems.append({"run": directory.id, "directory": shown(directory.shown), "reason": run})
            else:
                runs.append(run)
        return runs, problems

    def _filmed(self, task: str) -> Iterator[tuple[ViewedRun, RunTables]]:
        """Yield the runs of a task that may have films."""
        for run in self._all()[0]:
            directory = run.directory
            if run.row.task == task and (run.row.films or below(directory.root, directory.paths.films)):
                try:
                    tables = self.tables(directory)
                except (EvoPolicyGymError, OSError):
                    continue  # it is listed among those that can't be read
                yield run, tables

    def _added_to(self, kind: str) -> str:
        """Return what changes a document about all runs, besides their records."""
        adds = {"task": _added, "audit": _grown}.get(kind)
        return " ".join(map(adds, self.index.directories().values())) if adds else ""

    def _run(self, directory: RunDirectory) -> ViewedRun | str:
        """Return a run, or why it can't be read."""
        stamp = directory.stamp()
        kept = self._runs.get(directory.id)
        if kept is None or kept[0] != stamp:
            try:
                kept = stamp, viewed_run(directory, open_run(directory.root))
            except (EvoPolicyGymError, OSError) as error:
                kept = stamp, shown(str(error))
            self._runs[directory.id] = kept
        return kept[1]

    def _finished(self) -> list[ViewedRun]:
        """Return the finished runs that tables have."""
        return [run for run in self._all()[0] if run.is_finished]

    def _suite(self, table_names: Sequence[str]) -> dict[str, Any]:
        return suite_bundle(self._finished(), [shipped(name) for name in table_names])

    def _run_groups(self) -> Groups:
        """Return the groups of all runs, kept as long as no run changes."""
        stamp = self.index.stamp()
        kept, groups = self._groups
        if kept != stamp:
            groups = groups_of(self._all()[0])
            self._groups = stamp, groups
        return groups

    def _conduct(self, directory: RunDirectory) -> Conduct | str:
        """Return what an audit finds in a run, or why the run can't be audited; kept as long as the run is the same."""
        stamp = f"{directory.stamp()} {_grown(directory)}"
        kept = self._conducts.get(directory.id)
        if kept is None or kept[0] != stamp:
            try:
                kept = stamp, audit_run(read_run(directory.root), load_detectors())
            except (EvoPolicyGymError, OSError) as error:
                kept = stamp, shown(str(error))
            self._conducts[directory.id] = kept
        return kept[1]

    def _compare(self, name: str, other: str) -> dict[str, Any]:
        first, second = (self._run(self.index.directory(run)) for run in (name, other))
        if isinstance(first, ViewedRun) and isinstance(second, ViewedRun):
            return compare_bundle(first, second)
        raise RecordError(first if isinstance(first, str) else str(second))

    def tables(self, directory: RunDirectory) -> RunTables:
        """Return a run's tables, whether or not its record holds."""
        return self._tables.get(directory.id, directory.stamp(), lambda: tables_of(look_at_run(directory.root)))

    def _record(self, directory: RunDirectory) -> RunRecord:
        return self.tables(directory).record

    def _index(self, directory: RunDirectory) -> Index:
        path = below(directory.root, directory.paths.transcript)
        return self._indexes.get(directory.id, _grown(directory), lambda: transcript_index(path))

    def _requests(self, directory: RunDirectory) -> tuple[ModelUse, ...]:
        log = directory.paths.logs / MODEL_LOG
        return self._uses.get(directory.id, _stamp_of(log), lambda: model_uses(directory.paths))


def _kind(name: str) -> str:
    """Return the kind of a document of this name."""
    words = name.split("/")
    own = "/".join((words[0], *words[2:3]))
    return own if own in SLOW_KINDS else words[0]


def _added(run: RunDirectory) -> str:
    """Return what changes when films or returns are added to a run that is finished."""
    times = [str(run.paths.post_hoc.lstat().st_mtime_ns)] if below(run.root, run.paths.post_hoc) else []
    if below(run.root, run.paths.films):
        walked = islice(os.walk(run.paths.films), MOST_FOLDERS)
        times += [str(Path(directory).lstat().st_mtime_ns) for directory, _, _ in walked]
    return "+".join(times)


def _grown(directory: RunDirectory) -> str:
    """Return what changes whenever a run's transcript does: it grows without the journal's doing."""
    return _stamp_of(directory.paths.transcript)


def _stamp_of(path: Path) -> str:
    try:
        status = path.lstat()
    except OSError:
        return "-"
    return f"{status.st_mtime_ns}.{status.st_size}"
