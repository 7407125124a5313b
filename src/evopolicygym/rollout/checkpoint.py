"""Taking a checkpoint: a copy of ``system/`` that nobody can change, named by its content.

The directory belongs to a stranger who may change it at any moment. So the walk goes by descriptors and follows no
link, every cap is checked while walking, and what counts is what was copied. Nothing in here reads what a file means.
"""

import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import NoReturn

from evopolicygym.core.errors import RefusalStatus, RequestRefused
from evopolicygym.core.task import Limits
from evopolicygym.records import durable
from evopolicygym.records.checkpoints import TAKING, checkpoint_name

POLICY_FILE = "policy.py"
MAX_DEPTH = 16
MAX_NAME_BYTES = 200
LEFT_OUT_DIRECTORIES = {"__pycache__", ".git", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".ipynb_checkpoints"}
LEFT_OUT_SUFFIXES = (".pyc", ".pyo")
CHUNK = 1 << 20
OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
OPEN_DIRECTORY = OPEN_FILE | os.O_DIRECTORY


@dataclass(slots=True)
class _Tally:
    """What was copied so far, against the caps."""

    limits: Limits
    device: int
    digests: dict[str, tuple[int, str]] = field(default_factory=dict)
    total: int = 0
    entries: int = 0

    def count_entry(self) -> None:
        self.entries += 1
        if self.entries > 2 * self.limits.checkpoint_files:
            _refuse(f"it holds more than {2 * self.limits.checkpoint_files} files and directories")

    def count_bytes(self, count: int) -> None:
        self.total += count
        if self.total > self.limits.checkpoint_mb << 20:
            _refuse(f"it is larger than {self.limits.checkpoint_mb} MiB")


def capture(system: Path, store: Path, limits: Limits) -> str:
    """Copy ``system`` into ``store`` under the name that its content gives it, and return that name.

    Raises ``RequestRefused`` where it can't be taken; then nothing is left in ``store``.
    """
    store.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=TAKING, dir=store))
    try:
        name = _copy_all(system, beside, limits)
        beside.chmod(0o755)
        target = store / name
        if not target.exists():
            _flush_directories(beside)
            durable.rename(beside, target)
        else:
            durable.flush(store)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return name


def _flush_directories(checkpoint: Path) -> None:
    """Have the names on disk; the files were flushed when they were copied."""
    for directory, _, _ in os.walk(checkpoint):
        durable.flush(Path(directory))


def _copy_all(system: Path, target: Path, limits: Limits) -> str:
    try:
        root = os.open(system, OPEN_DIRECTORY)
    except OSError as error:
        _refuse(f"it can't be opened as a directory: {error.strerror}")
    tally = _Tally(limits, os.fstat(root).st_dev)
    # The directories from the root to the present one are open, and no others: no tree exhausts our descriptors.
    path = [(root, _copy_directory(root, PurePosixPath(), target, tally))]
    try:
        while path:
            found = next(path[-1][1], None)
            if found is None:
                os.close(path.pop()[0])
            else:
                path.append((found[0], _copy_directory(*found, target, tally)))
    finally:
        for directory, _ in path:
            os.close(directory)
    if POLICY_FILE not in tally.digests:
        _refuse(f"it holds no file {POLICY_FILE}")
    return checkpoint_name(tally.digests)


def _copy_directory(
    directory: int, at: PurePosixPath, target: Path, tally: _Tally
) -> Iterator[tuple[int, PurePosixPath]]:
    """Copy one directory's files; yield its open subdirectories."""
    with os.scandir(directory) as entries:
        for entry in entries:
            tally.count_entry()
            path = at / _checked_name(entry.name, at)
            if len(path.parts) > MAX_DEPTH:
                _refuse(f"{path} lies deeper than {MAX_DEPTH} directories")
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in LEFT_OUT_DIRECTORIES:
                    (target / path).mkdir(parents=True, exist_ok=True)
                    yield _opened(entry.name, directory, OPEN_DIRECTORY, path), path
            elif not entry.name.endswith(LEFT_OUT_SUFFIXES):
                _copy_file(entry.name, directory, path, target, tally)


def _checked_name(name: str, at: PurePosixPath) -> str:
    try:
        encoded = name.encode("utf-8")
    except UnicodeEncodeError:
        _refuse(f"a name in {_shown(at)} is not UTF-8")
    if len(encoded) > MAX_NAME_BYTES or not name.isprintable():
        _refuse(f"a name in {_shown(at)} is longer than {MAX_NAME_BYTES} bytes or holds control characters")
    return name


def _copy_file(name: str, directory: int, path: PurePosixPath, target: Path, tally: _Tally) -> None:
    source = _opened(name, directory, OPEN_FILE, path)
    try:
        before = os.fstat(source)
        _check_kind(before, path, tally)
        tally.digests[path.as_posix()] = _copy_bytes(source, target / path, before.st_size, path)
        if _fingerprint(os.fstat(source)) != _fingerprint(before):
            _refuse(f"{path} was changed while it was read; submit again when nothing writes to it")
    finally:
        os.close(source)
    if len(tally.digests) > tally.limits.checkpoint_files:
        _refuse(f"it holds more than {tally.limits.checkpoint_files} files")


def _check_kind(status: os.stat_result, path: PurePosixPath, tally: _Tally) -> None:
    if not stat.S_ISREG(status.st_mode):
        _refuse(f"{path} is no regular file; links, devices, pipes and sockets can't be taken")
    if status.st_nlink != 1:
        _refuse(f"{path} has {status.st_nlink} hard links; copy it instead")
    if status.st_dev != tally.device:
        _refuse(f"{path} lies on another device")
    tally.count_bytes(status.st_size)


def _copy_bytes(source: int, target: Path, size: int, path: PurePosixPath) -> tuple[int, str]:
    digest, copied = hashlib.sha256(), 0
    with target.open("xb") as file:
        while chunk := os.read(source, CHUNK):
            copied += len(chunk)
            if copied > size:
                _refuse(f"{path} grew while it was read; submit again when nothing writes to it")
            digest.update(chunk)
            file.write(chunk)
        file.flush()
        durable.disk.flush(file.fileno())
    target.chmod(0o644)
    return copied, digest.hexdigest()


def _opened(name: str, directory: int, flags: int, path: PurePosixPath) -> int:
    try:
        return os.open(name, flags, dir_fd=directory)
    except OSError as error:
        _refuse(f"{path} can't be taken: {error.strerror}; links are not followed")


def _fingerprint(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _shown(at: PurePosixPath) -> str:
    return "system/" if at == PurePosixPath() else f"system/{at}"


def _refuse(why: str) -> NoReturn:
    raise RequestRefused(RefusalStatus.INVALID_CHECKPOINT, f"system/ can't be taken as a checkpoint: {why}.")
