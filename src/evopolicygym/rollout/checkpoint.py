"""Captures checkpoints: immutable copies of ``system/``, named by their content, with parameters set on request.

Untrusted code owns the directory and may change it at any time. So the walk uses descriptors, follows no link and
checks all limits, and only the copy is used. Opening a file may block forever, so the walk runs in a thread with a time
limit.
"""

import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from time import monotonic
from types import MappingProxyType
from typing import NoReturn

from evopolicygym.core import strict_json
from evopolicygym.core.errors import RefusalStatus, RequestRefused
from evopolicygym.core.submission import Setting
from evopolicygym.core.task import Limits
from evopolicygym.records import atomic
from evopolicygym.records.checkpoints import PARTIAL_PREFIX, checkpoint_name

POLICY_FILE = "policy.py"
MAX_DEPTH = 16
MAX_NAME_BYTES = 200
LEFT_OUT_DIRECTORIES = {"__pycache__", ".git", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".ipynb_checkpoints"}
LEFT_OUT_SUFFIXES = (".pyc", ".pyo")
CHUNK = 1 << 20
CAPTURE_TIMEOUT_S = 30.0
"""Seconds in which ``system/`` must be read."""
GRACE_S = 1.0
"""Further seconds after which a late walk counts as blocked in a system call."""
FILE_MODE, DIRECTORY_MODE = 0o644, 0o755
OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
OPEN_DIRECTORY = OPEN_FILE | os.O_DIRECTORY
NO_SETTINGS: Mapping[str, Setting] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class _Source:
    """The directory to copy, with the descriptor of its parent if the path is relative."""

    path: Path
    at: int | None


@dataclass(slots=True)
class _Tally:
    """Totals of the copy, checked against the limits."""

    limits: Limits
    device: int
    deadline: float
    digests: dict[str, tuple[int, str]] = field(default_factory=dict)
    total: int = 0
    entries: int = 0

    def check_time(self) -> None:
        if monotonic() > self.deadline:
            _refuse_as_slow()

    def count_entry(self) -> None:
        self.check_time()
        self.entries += 1
        if self.entries > 2 * self.limits.checkpoint_files:
            _refuse(f"it holds more than {2 * self.limits.checkpoint_files} files and directories")

    def count_bytes(self, count: int) -> None:
        self.total += count
        if self.total > self.limits.checkpoint_mb << 20:
            _refuse(f"it is larger than {self.limits.checkpoint_mb} MiB")


_busy_stores: set[Path] = set()
"""The stores into which a thread is copying, or is blocked while copying."""


def capture(
    system: Path,
    store: Path,
    limits: Limits,
    at: int | None = None,
    settings: Mapping[str, Setting] = NO_SETTINGS,
) -> str:
    """Copy ``system`` to ``store`` and return the copy's name, which depends on its content.

    ``at`` is the descriptor of the parent of a relative ``system``; ``settings`` are values of the policy's parameters
    in the copy. The copy is flushed to disk. Raises ``RequestRefused`` if ``system`` is invalid; then nothing is left
    in ``store``. Only one capture into a store may run at a time.
    """
    if store in _busy_stores:
        _refuse("a file still blocks the thread that reads it for an earlier submission")
    store.mkdir(parents=True, exist_ok=True)
    for unfinished in store.glob(f"{PARTIAL_PREFIX}*"):  # left by a process that was killed
        shutil.rmtree(unfinished, ignore_errors=True)
    copy = Path(tempfile.mkdtemp(prefix=PARTIAL_PREFIX, dir=store))
    try:
        name = _copy_in_time(_Source(system, at), copy, limits, settings)
        copy.chmod(DIRECTORY_MODE)
        target = store / name
        if not target.exists():
            atomic.flush_tree(copy)
            atomic.rename(copy, target)
        else:
            atomic.flush(store)
    finally:
        shutil.rmtree(copy, ignore_errors=True)
    return name


def _copy_in_time(system: _Source, target: Path, limits: Limits, settings: Mapping[str, Setting]) -> str:
    """Copy in a separate thread, which ends in time unless a system call blocks it."""
    store, result = target.parent, Future[str]()
    deadline = monotonic() + CAPTURE_TIMEOUT_S

    def copy() -> None:
        try:
            digests = _copy_all(system, target, limits, deadline)
            if settings:
                digests |= _set_parameters(target, digests, settings)
            result.set_result(checkpoint_name(digests))
        except BaseException as error:  # noqa: BLE001 - raised again in the waiting thread
            result.set_exception(error)
        finally:
            _busy_stores.discard(store)

    _busy_stores.add(store)
    threading.Thread(target=copy, name="checkpoint", daemon=True).start()
    try:
        return result.result(CAPTURE_TIMEOUT_S + GRACE_S)
    except TimeoutError:
        _refuse_as_slow()


def _copy_all(system: _Source, target: Path, limits: Limits, deadline: float) -> dict[str, tuple[int, str]]:
    _walk(system, None, limits, deadline)  # so that an invalid directory is refused before a byte is written
    return _walk(system, target, limits, deadline)


def _set_parameters(
    target: Path, digests: Mapping[str, tuple[int, str]], settings: Mapping[str, Setting]
) -> dict[str, tuple[int, str]]:
    """Set parameters in the copy; return the new size and digest of their file."""
    name = PARAMETERS
    if name not in digests:
        raise missing_parameters_refusal()
    if digests[name][0] > MAX_PARAMETERS_BYTES:
        _refuse(f"{name} is larger than {MAX_PARAMETERS_BYTES} bytes, so its parameters can't be set")
    content = with_settings((target / name).read_bytes(), settings)
    (target / name).write_bytes(content)
    return {name: (len(content), hashlib.sha256(content).hexdigest())}


def _walk(system: _Source, target: Path | None, limits: Limits, deadline: float) -> dict[str, tuple[int, str]]:
    """Walk through ``system`` and copy it to a target, if any; return sizes and digests by path."""
    try:
        root = os.open(system.path, OPEN_DIRECTORY, dir_fd=system.at)
    except OSError as error:
        _refuse(f"it can't be opened as a directory: {error.strerror}")
    tally = _Tally(limits, os.fstat(root).st_dev, deadline)
    # Only the directories from the root to the current one are open, so that no tree exhausts our descriptors.
    path = [(root, _copy_directory(root, PurePosixPath(), target, tally))]
    try:
        while path:
            entry = next(path[-1][1], None)
            if entry is None:
                os.close(path.pop()[0])
            else:
                path.append((entry[0], _copy_directory(*entry, target, tally)))
    finally:
        for directory, _ in path:
            os.close(directory)
    if POLICY_FILE not in tally.digests:
        _refuse(f"it holds no file {POLICY_FILE}")
    return tally.digests


def _copy_directory(
    directory: int, at: PurePosixPath, target: Path | None, tally: _Tally
) -> Iterator[tuple[int, PurePosixPath]]:
    """Copy one directory's files; yield its open subdirectories."""
    with os.scandir(directory) as entries:
        listed = []
        for entry in entries:
            tally.count_entry()
            listed.append(entry)
    for entry in listed:
        path = at / _check_name(entry.name, at)
        if len(path.parts) > MAX_DEPTH:
            _refuse(f"{path} is deeper than {MAX_DEPTH} directories")
        if entry.is_dir(follow_symlinks=False):
            if entry.name not in LEFT_OUT_DIRECTORIES:
                yield _enter(entry.name, directory, path, target, tally), path
        elif not entry.name.endswith(LEFT_OUT_SUFFIXES):
            _copy_file(entry.name, directory, path, target, tally)


def _enter(name: str, directory: int, path: PurePosixPath, target: Path | None, tally: _Tally) -> int:
    """Open a directory and create its empty copy in the target, if any; return the descriptor."""
    source = _open_entry(name, directory, OPEN_DIRECTORY, path)
    try:
        _check_reach(os.fstat(source), stat.S_IRUSR | stat.S_IXUSR, path, tally)
        if target:
            (target / path).mkdir()
            (target / path).chmod(DIRECTORY_MODE)
    except BaseException:
        os.close(source)
        raise
    return source


def _check_name(name: str, at: PurePosixPath) -> str:
    try:
        encoded = name.encode("utf-8")
    except UnicodeEncodeError:
        _refuse(f"a name in {_directory_text(at)} is not UTF-8")
    if len(encoded) > MAX_NAME_BYTES or not name.isprintable():
        _refuse(f"a name in {_directory_text(at)} is longer than {MAX_NAME_BYTES} bytes or holds control characters")
    return name


def _copy_file(name: str, directory: int, path: PurePosixPath, target: Path | None, tally: _Tally) -> None:
    source = _open_entry(name, directory, OPEN_FILE, path)
    try:
        before = os.fstat(source)
        _check_kind(before, path, tally)
        tally.digests[path.as_posix()] = (
            _copy_bytes(source, target / path, before.st_size, path, tally) if target else (before.st_size, "")
        )
        if _fingerprint(os.fstat(source)) != _fingerprint(before):
            _refuse(f"{path} was changed while it was read; submit again when nothing writes to it")
    finally:
        os.close(source)
    if len(tally.digests) > tally.limits.checkpoint_files:
        _refuse(f"it holds more than {tally.limits.checkpoint_files} files")


def _check_kind(status: os.stat_result, path: PurePosixPath, tally: _Tally) -> None:
    if not stat.S_ISREG(status.st_mode):
        _refuse(f"{path} is not a regular file; links, devices, pipes and sockets are not allowed")
    if status.st_nlink != 1:
        _refuse(f"{path} has {status.st_nlink} hard links; copy it instead")
    _check_reach(status, stat.S_IRUSR, path, tally)
    tally.count_bytes(status.st_size)


def _check_reach(status: os.stat_result, needed: int, path: PurePosixPath, tally: _Tally) -> None:
    """Check the rules for both files and directories; permissions count even if this process could ignore them."""
    tally.check_time()
    if status.st_dev != tally.device:
        _refuse(f"{path} is on another device")
    if status.st_mode & needed != needed:
        _refuse(f"{path} can't be read by its owner: its mode is {stat.S_IMODE(status.st_mode):03o}")


def _copy_bytes(source: int, target: Path, size: int, path: PurePosixPath, tally: _Tally) -> tuple[int, str]:
    digest, copied = hashlib.sha256(), 0
    with target.open("xb") as file:
        while chunk := _read(source, path):
            tally.check_time()
            copied += len(chunk)
            if copied > size:
                _refuse(f"{path} grew while it was read; submit again when nothing writes to it")
            digest.update(chunk)
            file.write(chunk)
    target.chmod(FILE_MODE)
    return copied, digest.hexdigest()


def _read(source: int, path: PurePosixPath) -> bytes:
    try:
        return os.read(source, CHUNK)
    except OSError as error:
        _refuse(f"{path} can't be read: {error.strerror}")


def _open_entry(name: str, directory: int, flags: int, path: PurePosixPath) -> int:
    try:
        return os.open(name, flags, dir_fd=directory)
    except OSError as error:
        _refuse(f"{path} can't be opened: {error.strerror}; links are not followed")


def _fingerprint(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _directory_text(at: PurePosixPath) -> str:
    return "system/" if at == PurePosixPath() else f"system/{at}"


def _refuse(reason: str) -> NoReturn:
    raise RequestRefused(RefusalStatus.INVALID_CHECKPOINT, f"system/ can't be taken as a checkpoint: {reason}.")


def _refuse_as_slow() -> NoReturn:
    _refuse(f"it could not be read within {CAPTURE_TIMEOUT_S:g} s; a file in it may block its readers")


PARAMETERS = "parameters.json"
MAX_PARAMETERS_BYTES = 1 << 16
"""Largest file in which parameters can be set."""
WHITE_SPACE = re.compile(r"[ \t\n\r]*")
MAX_LISTED = 20
"""Most names in a message."""


def with_settings(content: bytes, settings: Mapping[str, Setting]) -> bytes:
    """Return the file with parameters set; the same bytes if nothing changes.

    Raises ``RequestRefused`` if the file declares no such parameter, or one of another type.
    """
    declared = _read_parameters(content)
    for name, value in settings.items():
        if name not in declared:
            raise _settings_refusal(f"{PARAMETERS} declares no parameter {name!r}; it declares {_list_names(declared)}")
        if not _fits(value, declared[name]):
            is_whole = isinstance(value, float) and type(declared[name]) is int
            raise _settings_refusal(
                f"{name} is {_kind(declared[name])} in {PARAMETERS}, so it can't be set to {value!r}"
                f"{'; write it as a decimal there, such as 1.0' if is_whole else ''}"
            )
    return _replace_values(content.decode("utf-8"), settings).encode()


def _replace_values(text: str, settings: Mapping[str, Setting]) -> str:
    """Return a JSON object's text with some values replaced, and nothing else changed."""
    read, edits, position = json.JSONDecoder().raw_decode, [], _value_after(text, "{", 0)
    while text[position] != "}":
        name, end = read(text, position)
        start = _value_after(text, ":", end)
        value, end = read(text, start)
        if name in settings and settings[name] != value:
            edits.append((start, end, json.dumps(settings[name])))
        position = WHITE_SPACE.match(text, end).end()  # type: ignore[union-attr] # it matches nothing, too
        position = _value_after(text, ",", position) if text[position] == "," else position
    for start, end, value in reversed(edits):
        text = text[:start] + value + text[end:]
    return text


def _value_after(text: str, sign: str, position: int) -> int:
    """Return the position of the next value, after a sign and white space around it."""
    return WHITE_SPACE.match(text, text.index(sign, position) + 1).end()  # type: ignore[union-attr] # as above


def _read_parameters(content: bytes) -> dict[str, object]:
    try:
        document = strict_json.decode(content)
    except strict_json.NotStrict as error:
        raise _settings_refusal(f"{PARAMETERS} is not strict JSON: {error}") from error
    if not isinstance(document, dict):
        raise _settings_refusal(f'{PARAMETERS} must be a JSON object of names and values, such as {{"speed": 4.6}}')
    return document


def _fits(value: Setting, declared: object) -> bool:
    """Return whether a value has the type of the declared one; integers also fit floats."""
    return _kind(value) == _kind(declared) or (isinstance(declared, float) and _kind(value) == "a whole number")


def _kind(value: object) -> str:
    match value:
        case bool():
            return "true or false"
        case int():
            return "a whole number"
        case float():
            return "a number"
        case str():
            return "a text"
        case _:
            return "neither a number nor a text nor true or false"


def _list_names(declared: Mapping[str, object]) -> str:
    names = sorted(declared)
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return ", ".join(name[:60] for name in names[:MAX_LISTED]) + more if names else "none"


def missing_parameters_refusal() -> RequestRefused:
    """Return the refusal of settings for a policy without parameters."""
    return _settings_refusal(
        f'system/ holds no {PARAMETERS}; write it, such as {{"speed": 4.6}}, and have policy.py read it'
    )


def _settings_refusal(reason: str) -> RequestRefused:
    return RequestRefused(RefusalStatus.INVALID_REQUEST, f"set: {reason}.")
