"""Captures a checkpoint: an immutable copy of ``system/``, named by its content, with parameters set on request.

Untrusted code owns the directory and may change it at any moment. So the walk uses descriptors and follows no link, all
limits are checked during the walk, and only the copy counts. Opening a file may block forever: the walk runs in a
separate thread with a time limit.
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
from evopolicygym.records.checkpoints import TAKING, checkpoint_name

POLICY_FILE = "policy.py"
MAX_DEPTH = 16
MAX_NAME_BYTES = 200
LEFT_OUT_DIRECTORIES = {"__pycache__", ".git", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".ipynb_checkpoints"}
LEFT_OUT_SUFFIXES = (".pyc", ".pyo")
CHUNK = 1 << 20
TAKE_S = 30.0
"""Seconds within which ``system/`` must have been read."""
HELD_UP_S = 1.0
"""Seconds after which a walk that is late by so much is taken to be held up within a single call."""
FILE_MODE, DIRECTORY_MODE = 0o644, 0o755
OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
OPEN_DIRECTORY = OPEN_FILE | os.O_DIRECTORY
NOTHING_SET: Mapping[str, Setting] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class _Source:
    """The directory to copy, with the descriptor of its parent where the path is relative."""

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


_under_way: set[Path] = set()
"""The stores into which somebody walks at present, or is held up while walking."""


def capture(
    system: Path,
    store: Path,
    limits: Limits,
    at: int | None = None,
    settings: Mapping[str, Setting] = NOTHING_SET,
) -> str:
    """Copy ``system`` into ``store`` under the name that its content gives it, and return that name.

    ``at`` is the descriptor of the directory that a relative ``system`` lies in; ``settings`` are values that the
    policy's parameters are to have in the copy. The copy is on disk when this returns. Raises ``RequestRefused`` where
    it can't be taken; then nothing is left in ``store``. There must be one capture into a store at a time.
    """
    if store in _under_way:
        _refuse("a file that was asked for before still holds up whoever opens it")
    store.mkdir(parents=True, exist_ok=True)
    for unfinished in store.glob(f"{TAKING}*"):  # of a process that was killed in the middle
        shutil.rmtree(unfinished, ignore_errors=True)
    beside = Path(tempfile.mkdtemp(prefix=TAKING, dir=store))
    try:
        name = _copied_in_time(_Source(system, at), beside, limits, settings)
        beside.chmod(DIRECTORY_MODE)
        target = store / name
        if not target.exists():
            atomic.flush_tree(beside)
            atomic.rename(beside, target)
        else:
            atomic.flush(store)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return name


def _copied_in_time(system: _Source, beside: Path, limits: Limits, settings: Mapping[str, Setting]) -> str:
    """Copy in a thread of its own, which stops by itself in time unless a single call holds it up."""
    store, copied = beside.parent, Future[str]()
    deadline = monotonic() + TAKE_S

    def copy() -> None:
        try:
            digests = _copy_all(system, beside, limits, deadline)
            if settings:
                digests |= _set(beside, digests, settings)
            copied.set_result(checkpoint_name(digests))
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            copied.set_exception(error)
        finally:
            _under_way.discard(store)

    _under_way.add(store)
    threading.Thread(target=copy, name="checkpoint", daemon=True).start()
    try:
        return copied.result(TAKE_S + HELD_UP_S)
    except TimeoutError:
        _refuse_as_slow()


def _copy_all(system: _Source, target: Path, limits: Limits, deadline: float) -> dict[str, tuple[int, str]]:
    _walk(system, None, limits, deadline)  # so that what breaks a rule as it stands is refused before a byte is written
    return _walk(system, target, limits, deadline)


def _set(
    target: Path, digests: Mapping[str, tuple[int, str]], settings: Mapping[str, Setting]
) -> dict[str, tuple[int, str]]:
    """Set parameters in the copy; return the new size and digest of their file."""
    name = PARAMETERS
    if name not in digests:
        raise refuse_missing()
    if digests[name][0] > MOST_BYTES:
        _refuse(f"{name} is larger than {MOST_BYTES} bytes, of which nothing can be set")
    content = with_settings((target / name).read_bytes(), settings)
    (target / name).write_bytes(content)
    return {name: (len(content), hashlib.sha256(content).hexdigest())}


def _walk(system: _Source, target: Path | None, limits: Limits, deadline: float) -> dict[str, tuple[int, str]]:
    """Walk through all of ``system`` and copy it, if there is a target; return sizes and digests by path."""
    try:
        root = os.open(system.path, OPEN_DIRECTORY, dir_fd=system.at)
    except OSError as error:
        _refuse(f"it can't be opened as a directory: {error.strerror}")
    tally = _Tally(limits, os.fstat(root).st_dev, deadline)
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
        path = at / _checked_name(entry.name, at)
        if len(path.parts) > MAX_DEPTH:
            _refuse(f"{path} lies deeper than {MAX_DEPTH} directories")
        if entry.is_dir(follow_symlinks=False):
            if entry.name not in LEFT_OUT_DIRECTORIES:
                yield _enter(entry.name, directory, path, target, tally), path
        elif not entry.name.endswith(LEFT_OUT_SUFFIXES):
            _copy_file(entry.name, directory, path, target, tally)


def _enter(name: str, directory: int, path: PurePosixPath, target: Path | None, tally: _Tally) -> int:
    """Make the copy of a directory, empty, if there is a target; return the directory, open."""
    source = _opened(name, directory, OPEN_DIRECTORY, path)
    try:
        _check_reach(os.fstat(source), stat.S_IRUSR | stat.S_IXUSR, path, tally)
        if target:
            (target / path).mkdir()
            (target / path).chmod(DIRECTORY_MODE)
    except BaseException:
        os.close(source)
        raise
    return source


def _checked_name(name: str, at: PurePosixPath) -> str:
    try:
        encoded = name.encode("utf-8")
    except UnicodeEncodeError:
        _refuse(f"a name in {_shown(at)} is not UTF-8")
    if len(encoded) > MAX_NAME_BYTES or not name.isprintable():
        _refuse(f"a name in {_shown(at)} is longer than {MAX_NAME_BYTES} bytes or holds control characters")
    return name


def _copy_file(name: str, directory: int, path: PurePosixPath, target: Path | None, tally: _Tally) -> None:
    source = _opened(name, directory, OPEN_FILE, path)
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
        _refuse(f"{path} is no regular file; links, devices, pipes and sockets can't be taken")
    if status.st_nlink != 1:
        _refuse(f"{path} has {status.st_nlink} hard links; copy it instead")
    _check_reach(status, stat.S_IRUSR, path, tally)
    tally.count_bytes(status.st_size)


def _check_reach(status: os.stat_result, needed: int, path: PurePosixPath, tally: _Tally) -> None:
    """Check what is demanded of files and directories alike; rights count even where we could do without."""
    tally.check_time()
    if status.st_dev != tally.device:
        _refuse(f"{path} lies on another device")
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


def _refuse_as_slow() -> NoReturn:
    _refuse(f"it could not be read within {TAKE_S:g} s; a file in it may hold up whoever opens it")


PARAMETERS = "parameters.json"
MOST_BYTES = 1 << 16
"""Largest file in which parameters can be set."""
SPACE = re.compile(r"[ \t\n\r]*")
LISTED = 20
"""Most names in a refusal."""


def with_settings(content: bytes, settings: Mapping[str, Setting]) -> bytes:
    """Return the file with parameters set; the same bytes where nothing changes.

    Raises ``RequestRefused`` where the file declares no such parameter, or one of another kind.
    """
    declared = _declared(content)
    for name, value in settings.items():
        if name not in declared:
            raise _refused(f"{PARAMETERS} declares no parameter {name!r}; it declares {_listed(declared)}")
        if not _fits(value, declared[name]):
            raise _refused(f"{name} is {_kind(declared[name])} in {PARAMETERS}, so it can't be set to {value!r}")
    return _replaced(content.decode("utf-8"), settings).encode()


def _replaced(text: str, settings: Mapping[str, Setting]) -> str:
    """Return a JSON object's text with other values of some of its names, and nothing else changed."""
    read, found, place = json.JSONDecoder().raw_decode, [], _value_after(text, "{", 0)
    while text[place] != "}":
        name, end = read(text, place)
        begin = _value_after(text, ":", end)
        value, end = read(text, begin)
        if name in settings and settings[name] != value:
            found.append((begin, end, json.dumps(settings[name])))
        place = SPACE.match(text, end).end()  # type: ignore[union-attr] # it matches nothing, too
        place = _value_after(text, ",", place) if text[place] == "," else place
    for begin, end, value in reversed(found):
        text = text[:begin] + value + text[end:]
    return text


def _value_after(text: str, sign: str, place: int) -> int:
    """Return where the next value begins, after a sign and white space on both sides of it."""
    return SPACE.match(text, text.index(sign, place) + 1).end()  # type: ignore[union-attr] # as above


def _declared(content: bytes) -> dict[str, object]:
    try:
        document = strict_json.decode(content)
    except strict_json.NotStrict as error:
        raise _refused(f"{PARAMETERS} is not strict JSON: {error}") from error
    if not isinstance(document, dict):
        raise _refused(f'{PARAMETERS} must be a JSON object of names and values, such as {{"speed": 4.6}}')
    return document


def _fits(value: Setting, declared: object) -> bool:
    """Return whether a value is of the kind of the one that is declared: a whole number also fits another number."""
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


def _listed(declared: Mapping[str, object]) -> str:
    names = sorted(declared)
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(name[:60] for name in names[:LISTED]) + more if names else "none"


def refuse_missing() -> RequestRefused:
    """Return the refusal of settings where there is no file that could declare any."""
    return _refused(f'system/ holds no {PARAMETERS}; write it, such as {{"speed": 4.6}}, and have policy.py read it')


def _refused(why: str) -> RequestRefused:
    return RequestRefused(RefusalStatus.INVALID_REQUEST, f"set: {why}.")
