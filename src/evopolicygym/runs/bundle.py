"""Which files of finished runs go into a bundle, and what none of them may name.

A bundle holds what ``verify --replay`` needs on another machine, of runs whose cases anyone may know.
"""

import getpass
import hashlib
import json
import os
import re
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from evopolicygym.core import regular_file
from evopolicygym.core.cases import SplitSource
from evopolicygym.core.errors import RecordError, StorageError, UsageError
from evopolicygym.records.bundle import (
    INDEX,
    MAX_BYTES,
    MAX_FILES,
    RUNS,
    SUFFIXES,
    BundledExperiment,
    BundledRun,
    BundleIndex,
    write_bundle,
)
from evopolicygym.records.paths import EXPERIMENT, run_directory
from evopolicygym.records.reader import EXPERIMENT_FILE, RunRecord, experiment_name, read_run
from evopolicygym.runs.experiment import REVEALED_FILE, ledger_of, revealed_file
from evopolicygym.runs.verify import findings

OVERLAP = 512
"""Bytes of a piece that are looked at again with the next: a longer name isn't found where pieces meet."""
PIECE = 1 << 20
NOBODY = {"/", "/root", "root", "localhost", ""}
"""Homes, users and hosts that say nothing of anyone."""


@dataclass(frozen=True, slots=True)
class WrittenBundle:
    """A bundle that was written."""

    file: Path
    index: BundleIndex


def bundle_runs(roots: Sequence[Path], file: Path, *, allow_names: bool = False) -> WrittenBundle:
    """Write finished runs, each once, into an archive.

    Raises ``UsageError`` where a run isn't finished, its cases are secret, or a file names this machine or its user,
    unless ``allow_names``; ``RecordError`` where a run doesn't verify.
    """
    if not file.name.endswith(SUFFIXES):
        raise UsageError(f"Invalid bundle {file}: expected a name that ends in {SUFFIXES[0]}.")
    sources: dict[str, Path | bytes] = {}
    runs: dict[str, BundledRun] = {}
    names: dict[str, str] = {}
    for root in roots:
        record = _finished(root)
        opened = record.state.opened
        identity = opened.experiment
        name = names.setdefault(identity, _name(root, identity, names))
        below = Path(RUNS)
        path = run_directory(below, name, opened.agent.name, opened.task.environment.name, opened.run_id).as_posix()
        if path in runs:
            continue
        runs[path] = BundledRun(path, opened.run_id, identity)
        sources[f"{RUNS}/{name}/{EXPERIMENT_FILE}"] = (json.dumps({"experiment": identity}) + "\n").encode()
        if opened.split is not SplitSource.PUBLIC:
            sources[f"{RUNS}/{name}/{REVEALED_FILE}"] = _revealed(root, identity)
        sources |= {f"{path}/{source.relative_to(root).as_posix()}": source for source in _files(record)}
    hashes = {path: _sha256(source) for path, source in sources.items()}
    if len(hashes) > MAX_FILES or sum(map(_size, sources.values())) > MAX_BYTES:
        raise UsageError(f"Too much for a bundle: it holds {MAX_FILES:,} files and {MAX_BYTES:,} bytes at most.")
    experiments = tuple(_experiment(identity, name, runs.values()) for identity, name in sorted(names.items()))
    index = BundleIndex(tuple(runs[path] for path in sorted(runs)), experiments, dict(sorted(hashes.items())))
    if not allow_names:
        _refuse_names({INDEX: json.dumps(asdict(index)).encode(), **sources})
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_bundle(file, sources, index)
    except OSError as error:
        raise StorageError(f"{file} can't be written: {error.strerror or error}.") from error
    return WrittenBundle(file, index)


def _finished(root: Path) -> RunRecord:
    """Return a finished run that verifies; raise ``UsageError`` or ``RecordError`` for another."""
    record = read_run(root)
    opened = record.state.opened
    if record.state.finished is None:
        raise UsageError(f"{root} is not finished ({record.state.stage}); a bundle holds finished runs.")
    if not EXPERIMENT.fullmatch(opened.run_id):
        raise RecordError(f"{root} has the run id {opened.run_id!r}, which is not a run's.")
    failed = [finding for finding in findings(root) if not finding.ok and not finding.settled_by_replay]
    if failed:
        raise RecordError(f"{root} does not verify: {failed[0].name}: {failed[0].detail}")
    return record


def _revealed(root: Path, identity: str) -> Path:
    file = revealed_file(root, identity)
    if file is None:
        name = experiment_name(root.resolve(), identity) or "NAME"
        raise UsageError(
            f"The cases of {root} are still secret, so nobody else can verify it. Once no more runs are to be compared "
            f"on them, publish them: evopolicygym reveal {name}"
        )
    return file


def _name(root: Path, identity: str, taken: dict[str, str]) -> str:
    """Return what an experiment's directory is called in the bundle."""
    name = experiment_name(root.resolve(), identity)
    return name if EXPERIMENT.fullmatch(name) and name not in taken.values() else identity


def _files(record: RunRecord) -> Iterator[Path]:
    """Yield the files of a run that its event log has hashes of, with the event log and ``run.json``."""
    state, paths = record.state, record.paths
    yield from (paths.journal, paths.document)
    if state.post_hoc and paths.post_hoc.is_file():
        yield paths.post_hoc
    logs = state.finished.logs_sha256 if state.finished else {}
    yield from (path for path in paths.agent_logs if path.name in logs and path.is_file())
    published = [paths.published_feedback(submission.index) for submission in state.submissions if submission.published]
    checkpoints = {submission.charged.checkpoint for submission in state.submissions}
    for directory in (*map(paths.checkpoint, checkpoints), *published, paths.evaluation):
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
    """Raise ``UsageError`` where a file, or its path, names this machine or its user."""
    for what, pattern in _names():
        for path, source in sources.items():
            if pattern.search(path.encode()) or any(map(pattern.search, _pieces(source))):
                raise UsageError(
                    f"{path} of the bundle holds your {what}. Its hash binds it, so it can't be changed: leave that "
                    f"run out, or publish it as it is with --allow-names."
                )


def _names() -> Iterator[tuple[str, re.Pattern[bytes]]]:
    """Yield the home, the user and the host that files may not name, each as whole words."""
    found: dict[str, set[str]] = {"home directory's path": set(), "user name": set(), "host name": set()}
    with suppress(RuntimeError):
        found["home directory's path"].add(str(Path.home()))
    with suppress(KeyError, OSError):
        found["user name"].add(getpass.getuser())
    host = socket.gethostname()
    found["host name"] |= {host, host.partition(".")[0], os.environ.get("HOSTNAME", "")}
    for what, words in found.items():
        spelled = {form for word in words - NOBODY for form in (word, json.dumps(word)[1:-1])}
        if spelled:
            alternatives = b"|".join(re.escape(word.encode(errors="surrogateescape")) for word in sorted(spelled))
            yield what, re.compile(rb"(?<![A-Za-z0-9_])(?:" + alternatives + rb")(?![A-Za-z0-9_])")


def _pieces(source: Path | bytes) -> Iterator[bytes]:
    """Yield what a text holds in overlapping pieces; nothing of a file that isn't text."""
    if isinstance(source, bytes):
        yield source
        return
    with regular_file.reader(source) as opened:
        kept = b""
        while piece := opened.read(PIECE):
            if not kept and b"\0" in piece[:8192]:
                return
            yield kept + piece
            kept = piece[-OVERLAP:]
