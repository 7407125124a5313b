"""Bundles of finished runs: the files that go into them, and the check that no file names its user or machine.

A bundle contains what ``verify --replay`` needs on another machine. The runs' cases must be public or revealed.
"""

import getpass
import hashlib
import json
import os
import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from evopolicygym.core import regular_file
from evopolicygym.core.cases import SplitSource
from evopolicygym.core.errors import RecordError, StorageError, UsageError
from evopolicygym.core.text import shell_word
from evopolicygym.records.bundle import (
    INDEX,
    MAX_BYTES,
    MAX_FILES,
    SUFFIXES,
    BundledExperiment,
    BundledRun,
    BundleIndex,
    write_bundle,
)
from evopolicygym.records.bundle_paths import RUNS, check_layout
from evopolicygym.records.checked import CheckedRun, CheckedRuns
from evopolicygym.records.experiment import REVEALED_FILE, ledger_of, revealed_file
from evopolicygym.records.paths import EXPERIMENT, run_directory
from evopolicygym.records.reader import EXPERIMENT_FILE, Problem, RunRecord, read_run
from evopolicygym.records.release import refuse_release

OVERLAP = 512
"""Bytes of a chunk that are searched again with the next, so that names across the border are found."""
CHUNK = 1 << 20
COMMON_NAMES = {"/", "/root", "root", "localhost", ""}
"""Homes, users and hosts that identify nobody."""


@dataclass(frozen=True, slots=True)
class WrittenBundle:
    """A bundle that was written."""

    file: Path
    index: BundleIndex
    problems: tuple[Problem, ...] = ()
    """Runs that are left out, and why."""


def bundle_runs(opened: CheckedRuns, file: Path, *, steps: bool = True, allow_names: bool = False) -> WrittenBundle:
    """Write finished runs, each once, into an archive; the others are left out.

    Without ``steps`` it has no feedback and no files of hidden episodes, and only a replay can check its scores.

    Raises ``UsageError`` if no run is finished, a run's cases are secret or, unless ``allow_names``, a file names this
    machine or its user; ``RecordError`` if the files of a run's hidden episodes are missing, with ``steps``.
    """
    if not file.name.endswith(SUFFIXES):
        raise UsageError(f"Invalid bundle {file}: expected a name that ends in {SUFFIXES[0]}.")
    sources: dict[str, Path | bytes] = {}
    runs: dict[str, BundledRun] = {}
    names: dict[str, str] = {}
    unfinished = [Problem(run.root, _why_unfinished(run)) for run in opened.runs if not run.summary.is_finished]
    finished = [run for run in opened.runs if run.summary.is_finished]
    if not finished:
        raise UsageError(f"{unfinished[0].root} is left out: {unfinished[0].reason} A bundle holds finished runs.")
    for run in finished:
        root, summary = run.root, run.summary
        record = _read_whole_run(run, steps=steps)
        identity = summary.experiment
        name = names.setdefault(identity, _directory_name(run, names))
        below = Path(RUNS)
        path = run_directory(below, name, summary.agent.name, summary.task.environment.name, summary.run_id).as_posix()
        if path in runs:
            continue
        runs[path] = BundledRun(path, summary.run_id, identity)
        sources[f"{RUNS}/{name}/{EXPERIMENT_FILE}"] = (json.dumps({"experiment": identity}) + "\n").encode()
        if summary.split is not SplitSource.PUBLIC:
            sources[f"{RUNS}/{name}/{REVEALED_FILE}"] = _revealed_file(run)
        sources |= {
            f"{path}/{source.relative_to(root).as_posix()}": source for source in _bundled_files(record, steps=steps)
        }
    hashes = {path: _sha256(source) for path, source in sources.items()}
    if len(hashes) > MAX_FILES or sum(map(_size, sources.values())) > MAX_BYTES:
        raise UsageError(f"Invalid bundle: expected at most {MAX_FILES:,} files and {MAX_BYTES:,} bytes; bundle fewer.")
    try:
        check_layout(sources.keys(), {path: run.run_id for path, run in runs.items()}, set(names.values()))
    except RecordError as error:
        raise UsageError(f"Invalid bundle: {error}") from error
    experiments = tuple(_experiment(identity, name, runs.values()) for identity, name in sorted(names.items()))
    index = BundleIndex(tuple(runs[path] for path in sorted(runs)), experiments, dict(sorted(hashes.items())))
    if not allow_names:
        _refuse_names({INDEX: json.dumps(asdict(index)).encode(), **sources})
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_bundle(file, sources, index)
    except OSError as error:
        raise StorageError(f"{file} can't be written: {error.strerror or error}.") from error
    return WrittenBundle(file, index, (*opened.problems, *unfinished))


def _why_unfinished(run: CheckedRun) -> str:
    return f"It is not finished ({run.summary.stage.value})."


def _read_whole_run(run: CheckedRun, *, steps: bool) -> RunRecord:
    """Return a run's record; raise ``RecordError`` if files of its hidden episodes are missing or its id is invalid."""
    refuse_release(run.root)
    if not EXPERIMENT.fullmatch(run.summary.run_id):
        raise RecordError(f"{run.root} has the invalid run id {run.summary.run_id!r}.")
    record = read_run(run.root)
    has_files = record.state.finished and record.state.finished.evaluation_sha256
    if steps and has_files and not record.paths.evaluation.is_dir():
        raise RecordError(
            f"{run.root} does not verify: the hidden episodes' files were left out of this record. A bundle without "
            f"recorded steps has none of any run: --no-steps."
        )
    return record


def _revealed_file(run: CheckedRun) -> Path:
    file = revealed_file(run.root, run.summary.experiment)
    if file is None:
        name = run.experiment_name or "NAME"
        raise UsageError(
            f"The cases of {run.root} are still secret, so nobody else can verify it. Once no more runs will be "
            f"compared on them, publish them: evopolicygym reveal {shell_word(name)}"
        )
    return file


def _directory_name(run: CheckedRun, used: dict[str, str]) -> str:
    """Return the name of an experiment's directory in the bundle."""
    name = run.experiment_name
    return name if EXPERIMENT.fullmatch(name) and name not in used.values() else run.summary.experiment


def _bundled_files(record: RunRecord, *, steps: bool) -> Iterator[Path]:
    """Yield a run's event log, ``run.json``, and the files whose hashes the event log contains, or those but steps."""
    state, paths = record.state, record.paths
    yield from (paths.journal, paths.document)
    if state.post_hoc and paths.post_hoc.is_file():
        yield paths.post_hoc
    logs = state.finished.logs_sha256 if state.finished else {}
    yield from (path for path in paths.agent_logs if path.name in logs and path.is_file())
    published = [paths.published_feedback(submission.index) for submission in state.submissions if submission.published]
    checkpoints = {submission.charged.checkpoint for submission in state.submissions}
    recorded = (*published, paths.evaluation) if steps else ()
    for directory in (*map(paths.checkpoint, checkpoints), *recorded):
        if directory.is_dir():
            yield from (path for path, _ in regular_file.below(directory, paths.root))


def _experiment(identity: str, name: str, runs: Iterable[BundledRun]) -> BundledExperiment:
    ids = {run.run_id for run in runs if run.experiment == identity}
    ledger = ledger_of(identity)
    if ledger is None:
        return BundledExperiment(identity, name, None, ())
    listed = set(ledger.runs)
    return BundledExperiment(identity, name, len(listed), tuple(sorted(listed - ids)))


def _sha256(source: Path | bytes) -> str:
    if isinstance(source, bytes):
        return hashlib.sha256(source).hexdigest()
    with regular_file.reader(source) as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _size(source: Path | bytes) -> int:
    return len(source) if isinstance(source, bytes) else source.stat().st_size


def _refuse_names(sources: Mapping[str, Path | bytes]) -> None:
    """Raise ``UsageError`` if a file or its path names this machine or its user."""
    for what, pattern in _name_patterns():
        for path, source in sources.items():
            if pattern.search(path.encode()) or any(map(pattern.search, _read_chunks(source))):
                raise UsageError(
                    f"{path} of the bundle contains your {what} and can't be changed without breaking its hash. Leave "
                    f"the run out, or publish it unchanged with --allow-names."
                )


def _name_patterns() -> Iterator[tuple[str, re.Pattern[bytes]]]:
    """Yield patterns for the home directory, user and host that files must not name, as whole words."""
    names_by_kind: dict[str, set[str]] = {"home directory's path": set(), "user name": set(), "host name": set()}
    with suppress(RuntimeError):
        names_by_kind["home directory's path"].add(str(Path.home()))
    with suppress(KeyError, OSError):
        names_by_kind["user name"].add(getpass.getuser())
    host = socket.gethostname()
    names_by_kind["host name"] |= {host, host.partition(".")[0], os.environ.get("HOSTNAME", "")}
    for what, words in names_by_kind.items():
        spellings = {form for word in words - COMMON_NAMES for form in (word, json.dumps(word)[1:-1])}
        if spellings:
            alternatives = b"|".join(re.escape(word.encode(errors="surrogateescape")) for word in sorted(spellings))
            yield what, re.compile(rb"(?<![A-Za-z0-9_])(?:" + alternatives + rb")(?![A-Za-z0-9_])")


def _read_chunks(source: Path | bytes) -> Iterator[bytes]:
    """Yield a text in overlapping chunks; nothing if the file is binary."""
    if isinstance(source, bytes):
        yield source
        return
    with regular_file.reader(source) as opened:
        tail = b""
        while chunk := opened.read(CHUNK):
            if not tail and b"\0" in chunk[:8192]:
                return
            yield tail + chunk
            tail = chunk[-OVERLAP:]
