"""The one door for records: opens what may come from elsewhere, and gives checked records or says what is wrong.

A place is a run directory, a directory with runs below it (an experiment, a suite, a shard) or a bundle. Every run that
is shown, ranked, exported or compared comes through here: it has an event log, its summary is derived from that log,
and all that ``verify`` can check without playing holds. What doesn't hold is a ``Problem`` with its reason, and hides
no other run. What was found is kept in ``checks.sqlite3`` of the user's cache, as long as no file of the run changes.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import astuple, dataclass, field
from enum import StrEnum
from pathlib import Path

from evopolicygym.core import directories, regular_file
from evopolicygym.core.check_result import CheckResult, ProgressTracker, no_progress
from evopolicygym.core.errors import EvoPolicyGymError, RecordError, UsageError
from evopolicygym.core.run_summary import RunSummary
from evopolicygym.core.text import printable
from evopolicygym.records import experiment
from evopolicygym.records.atomic import is_locked
from evopolicygym.records.bundle import UnpackedBundle, is_bundle, unpack
from evopolicygym.records.file_stamps import code_key, settled_key
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import JOURNAL, Problem, experiment_name, read_run, scan
from evopolicygym.records.release import UNCHECKED as UNCHECKED_RELEASE
from evopolicygym.records.release import is_release
from evopolicygym.records.rollback_guard import Mark, is_replayed, own_mark
from evopolicygym.records.run_document import MAX_BYTES, decode, record_text, summary_of
from evopolicygym.records.verify import CHECKPOINTS, COMMITMENT, DOCUMENT, UNCHECKED, UNREAD, findings_of

DATABASE = "checks.sqlite3"
MAX_NAMED = 8
"""Runs that a message names, at most."""
BUSY_S = 2.0
"""Seconds to wait for another process; then the check is made anew."""
_TABLE = """
    CREATE TABLE IF NOT EXISTS checks (
        root TEXT PRIMARY KEY, experiment TEXT NOT NULL, key BLOB NOT NULL, findings TEXT NOT NULL,
        lines INTEGER NOT NULL, last TEXT NOT NULL, spent INTEGER NOT NULL
    )"""
_READ = "SELECT experiment, key, findings, lines, last, spent FROM checks WHERE root = ?"
_WRITE = "INSERT OR REPLACE INTO checks VALUES (?, ?, ?, ?, ?, ?, ?)"


class RecordState(StrEnum):
    """How far a record is to be believed, on this machine. No copy is believed more than what it is a copy of."""

    PLAYED_HERE = "played here"
    """This user played it on this machine, as the high-water mark in the state directory says."""
    REPLAYED = "replayed"
    """``verify --replay`` played its hidden episodes on this machine, and all were the same."""
    VERIFIED = "verified"
    """All that a record states of itself holds, and its cases are those that it committed to."""
    UNVERIFIED = "unverified"
    """Nothing is wrong, but not everything can be checked: its cases are secret, or its hidden episodes left out."""
    FAILED = "does not verify"
    """Something that it states is wrong. No table counts it."""
    SHIPPED = "shipped"
    """It is a result that ships with the package."""


@dataclass(frozen=True, slots=True)
class CheckedRun:
    """A run whose record holds."""

    root: Path
    summary: RunSummary
    """Derived from the event log."""
    state: RecordState
    unchecked: str = ""
    """What could not be checked or is wrong, if the record is unverified or does not verify."""
    experiment_name: str = ""
    """The name of its experiment's directory; empty if there is none."""


@dataclass(frozen=True, slots=True)
class CheckedRuns:
    """The runs at or below some paths."""

    runs: tuple[CheckedRun, ...] = ()
    problems: tuple[Problem, ...] = ()
    """Runs and directories that are left out, and why."""
    bundles: tuple[UnpackedBundle, ...] = ()
    """The bundles among the paths."""
    paths: tuple[Path, ...] = field(default=())
    """The directories that were searched: those of unpacked bundles in the bundles' stead."""


@dataclass(frozen=True, slots=True)
class _Check:
    """What was found of a finished record, and where its event log ends."""

    findings: tuple[CheckResult, ...]
    head: Mark


def open_run(root: Path) -> CheckedRun:
    """Return a run whose record holds; of an unfinished one, nothing but its event log is checked.

    Raises ``UsageError`` if ``root`` isn't a run directory, ``RecordError`` if the record can't be read or a check of
    it fails.
    """
    run = look_at_run(root)
    if run.state is RecordState.FAILED:
        raise RecordError(f"The record does not verify: {run.unchecked}")
    return run


def look_at_run(root: Path) -> CheckedRun:
    """Return a run whether or not its record holds, as its state says; raise as ``open_run`` does otherwise."""
    if is_release(root):
        return CheckedRun(root, summary_of(read_run(root)), RecordState.UNVERIFIED, UNCHECKED_RELEASE)
    summary, check = _check(root)
    state, unchecked = _state(summary, check, is_played=is_locked(RunPaths(root).lock))
    return CheckedRun(root, summary, state, unchecked, printable(experiment_name(root, summary.experiment)))


def _check(root: Path) -> tuple[RunSummary, _Check]:
    """Return a run's summary and what was found of its record, from the cache if nothing has changed since."""
    paths = RunPaths(root)
    known = _read_cache(paths)
    if known is not None:
        summary = decode(regular_file.read(paths.document, MAX_BYTES))
        return summary, known
    key = settled_key(_files(paths), code_key())  # before they are read
    record = read_run(root)
    summary = decode(record_text(record))
    head = Mark(len(record.hashes), record.hashes[-1], record.state.spent)
    if record.state.finished is None:
        return summary, _Check((), head)
    check = _Check(tuple(findings_of(record)), head)
    if key is not None and all(finding.ok or finding.settled_by_replay for finding in check.findings):
        _write_cache(paths, summary.experiment, key, check)
    return summary, check


def _state(summary: RunSummary, check: _Check, *, is_played: bool) -> tuple[RecordState, str]:
    """Return the state of a record, and what could not be checked or is wrong."""
    if failed := failures(check.findings):
        return RecordState.FAILED, f"{failed[0].name}: {failed[0].detail}"
    name = summary.experiment, summary.run_id
    mark = own_mark(*name)
    if mark is not None and (mark.lines, mark.last) == (check.head.lines, check.head.last):
        return RecordState.PLAYED_HERE, ""
    if mark is not None and not is_played and mark.lines > check.head.lines:
        return RecordState.FAILED, (
            f"it goes back: it holds {check.head.lines} events, {check.head.spent} episodes charged; it had "
            f"{mark.lines} events, {mark.spent} episodes charged, when it was last played on this machine"
        )
    if not summary.is_finished:
        return RecordState.UNVERIFIED, "it is not finished"
    if is_replayed(*name, check.head.last):
        return RecordState.REPLAYED, ""
    unchecked = [
        f"{finding.name}: {finding.detail}"
        for finding in check.findings
        if finding.settled_by_replay or (finding.name in {COMMITMENT, CHECKPOINTS} and finding.verdict == UNCHECKED)
    ]
    return (RecordState.UNVERIFIED, "; ".join(unchecked)) if unchecked else (RecordState.VERIFIED, "")


def open_runs(paths: Iterable[Path], follow: ProgressTracker = no_progress) -> CheckedRuns:
    """Return all runs at or below some paths, each once; ``follow`` wraps the loop over them, to show progress.

    Raises ``UsageError`` if a place doesn't exist, ``RecordError`` for a bundle that is refused.
    """
    paths = list(dict.fromkeys(paths))
    bundles = {path: unpack(path) for path in paths if is_bundle(path)}
    directories = [bundles[path].directory if path in bundles else path for path in paths]
    items = list(dict.fromkeys(item for directory in directories for item in candidates(directory)))
    runs, problems = [], [item for item in items if isinstance(item, Problem)]
    for root in follow("reading runs", [item for item in items if isinstance(item, Path)]):
        try:
            runs.append(open_run(root))
        except (EvoPolicyGymError, OSError) as error:
            problems.append(Problem(root, printable(str(error))))
    return CheckedRuns(tuple(runs), tuple(problems), tuple(bundles.values()), tuple(directories))


def open_usable_runs(paths: Iterable[Path], follow: ProgressTracker = no_progress) -> CheckedRuns:
    """Return what ``open_runs`` does where there is a run; else raise the reason.

    Raises ``UsageError`` if there are no runs at all, ``RecordError`` if none can be used.
    """
    opened = open_runs(paths, follow)
    if opened.runs:
        return opened
    if not opened.problems:
        where = ", ".join(map(str, opened.paths)) or "the given paths"
        raise UsageError(f"There are no runs below {where}; a run's directory holds a {JOURNAL}.")
    raise unusable(opened.problems)


def unusable(problems: Sequence[Problem]) -> RecordError:
    """Return the error for paths of which no run can be used, with the reasons."""
    lines = [f"{problem.root}: {problem.reason}" for problem in problems[:MAX_NAMED]]
    more = [f"and {len(problems) - MAX_NAMED} more"] if len(problems) > MAX_NAMED else []
    return RecordError("\n".join(["No run can be used.", *lines, *more]))


def candidates(directory: Path) -> Iterator[Path | Problem]:
    """Yield the run directories at or below a directory, resolved, and what there can't be read."""
    if not directory.exists():
        raise UsageError(f"{directory} does not exist; expected the directory of a run, or one with runs below it.")
    for item in scan(directory):
        yield item if isinstance(item, Problem) else item.resolve()


def failures(findings: Sequence[CheckResult]) -> list[CheckResult]:
    """Return what is wrong with a record.

    Neither a ``run.json`` that is missing or half-written, as it follows from the event log, nor hidden episodes that
    were left out are wrong: the former is written again, the latter are played again by ``verify --replay``.
    """
    return [
        finding
        for finding in findings
        if not finding.ok and not finding.settled_by_replay and (finding.name, finding.verdict) != (DOCUMENT, UNREAD)
    ]


def _files(paths: RunPaths) -> tuple[Path, ...]:
    """Return the files and directories of a record that are checked."""
    return (
        paths.journal,
        paths.document,
        paths.post_hoc,
        paths.checkpoints,
        paths.evaluation,
        paths.feedback,
        *paths.agent_logs,
    )


def _key(record: bytes, paths: RunPaths, identity: str) -> bytes | None:
    """Return what identifies a record's files and those that its experiment's secret is read from."""
    return settled_key(experiment.secret_files(paths.root, identity), record)


def _read_cache(paths: RunPaths) -> _Check | None:
    """Return what was found of a record, if neither its files, the secret nor this code have changed since."""
    with suppress(sqlite3.Error, OSError, EvoPolicyGymError, ValueError, TypeError, KeyError):
        file = directories.cache_directory() / DATABASE
        if not file.exists():
            return None
        with closing(sqlite3.connect(file, timeout=BUSY_S)) as database:
            row = database.execute(_READ, (str(paths.root),)).fetchone()
        if row is None:
            return None
        identity, key, findings, *head = row
        record = settled_key(_files(paths), code_key())
        if record is not None and _key(record, paths, identity) == key:
            return _Check(tuple(CheckResult(**fields) for fields in json.loads(findings)), Mark(*head))
    return None


def _write_cache(paths: RunPaths, identity: str, record: bytes, check: _Check) -> None:
    """Keep what was found; where that isn't possible, it is found again."""
    with suppress(sqlite3.Error, OSError, EvoPolicyGymError):
        key = _key(record, paths, identity)
        if key is None:
            return
        findings = [
            {
                "name": finding.name,
                "ok": finding.ok,
                "detail": finding.detail,
                "verdict": finding.verdict,
                "settled_by_replay": finding.settled_by_replay,
            }
            for finding in check.findings
        ]
        file = directories.cache_directory() / DATABASE
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with closing(sqlite3.connect(file, timeout=BUSY_S)) as database, database:
            database.execute(_TABLE)
            database.execute(_WRITE, (str(paths.root), identity, key, json.dumps(findings), *astuple(check.head)))
