"""Bundles: archives of finished runs that anyone can verify, written reproducibly and read as untrusted input.

``bundle.json`` comes first; it lists the runs, the hash of every other file, and how many runs each experiment started.
Which files of a run are included is decided in ``export/bundle.py``.
"""

import gzip
import hashlib
import io
import json
import os
import shutil
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

from evopolicygym.core import regular_file, strict_json
from evopolicygym.core.decoding import Undecodable, decoder
from evopolicygym.core.errors import RecordError, StorageError
from evopolicygym.core.text import printable
from evopolicygym.records import atomic
from evopolicygym.records.bundle_paths import check_layout, is_valid_path
from evopolicygym.records.reader import experiment_name, find_runs, read_run

SCHEMA = 1
INDEX = "bundle.json"
SUFFIXES = (".tar.gz", ".tgz")
MAX_BYTES = 8 << 30
"""Bytes of all files of a bundle; a run of a suite has about 10 MB."""
MAX_FILES = 200_000
MAX_INDEX = 64 << 20
"""Bytes of ``bundle.json``."""
MAX_RATIO = 100
"""Bytes of the archive for each of its compressed bytes; the runs of ``results/`` have at most 7."""
CHUNK = 1 << 18
"""Bytes that are read at once; larger archive headers are rejected."""
LEVEL = 6
MODE = 0o644


@dataclass(frozen=True, slots=True)
class BundledRun:
    """A run in a bundle."""

    path: str
    run_id: str
    experiment: str
    """The experiment's identity."""


@dataclass(frozen=True, slots=True)
class BundledExperiment:
    """The runs of an experiment, as the author's machine lists them."""

    experiment: str
    name: str
    began: int | None
    """How many runs it started there; None if they are not listed there."""
    missing: tuple[str, ...]
    """The ids of its runs that are not in the bundle."""


@dataclass(frozen=True, slots=True)
class BundleIndex:
    """``bundle.json``."""

    runs: tuple[BundledRun, ...]
    experiments: tuple[BundledExperiment, ...]
    files: Mapping[str, str]
    """The SHA-256 of every other file in hexadecimal, by path."""
    schema_version: int = SCHEMA


@dataclass(frozen=True, slots=True)
class UnpackedBundle:
    """A bundle whose files were checked."""

    file: Path
    directory: Path
    index: BundleIndex

    @property
    def roots(self) -> tuple[Path, ...]:
        """The directories of its runs."""
        return tuple(self.directory / run.path for run in self.index.runs)


def _check_schema(document: object) -> Mapping[str, Any]:
    """Return a ``bundle.json``; raise ``RecordError`` if it has another schema."""
    if not isinstance(document, Mapping):
        raise RecordError(f"Invalid {INDEX}: expected an object.")
    schema = document.get("schema_version")
    if schema == SCHEMA and not isinstance(schema, bool):
        return document
    raise RecordError(f"Invalid {INDEX}: expected schema_version {SCHEMA}, got {printable(str(schema))[:60]}.")


def is_bundle(path: Path) -> bool:
    """Return whether a path is a file with a bundle's suffix."""
    return path.name.endswith(SUFFIXES) and path.is_file()


def write_bundle(file: Path, sources: Mapping[str, Path | bytes], index: BundleIndex) -> None:
    """Write an archive of files, given by their paths in it; the same files give the same bytes.

    Raises ``OSError``, and ``RecordError`` if a file doesn't have the hash that the index lists.
    """
    temporary = atomic.temp_path(file)
    try:
        with (
            temporary.open("xb") as raw,
            gzip.GzipFile("", "wb", LEVEL, raw, mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            text = (json.dumps(asdict(index), indent=2, sort_keys=True) + "\n").encode()
            archive.addfile(_member(INDEX, len(text)), io.BytesIO(text))
            for path, source in sorted(sources.items()):
                if isinstance(source, bytes):
                    archive.addfile(_member(path, len(source)), io.BytesIO(source))
                    continue
                with regular_file.reader(source) as content:
                    archive.addfile(_member(path, os.fstat(content.fileno()).st_size), content)
                    content.seek(0)
                    if hashlib.file_digest(content, "sha256").hexdigest() != index.files[path]:
                        raise RecordError(f"{source} changed while it was being bundled.")
        atomic.rename(temporary, file)
    finally:
        temporary.unlink(missing_ok=True)


def _member(path: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(path)
    member.size, member.mode = size, MODE
    return member


def unpack(file: Path) -> UnpackedBundle:
    """Extract a bundle until this program ends; raise ``RecordError`` if its content doesn't match its index."""
    status = file.stat()
    return _unpack(file.resolve(), (status.st_ino, status.st_size, status.st_mtime_ns))[1]


@cache
def _unpack(file: Path, _version: tuple[int, ...]) -> tuple[TemporaryDirectory[str], UnpackedBundle]:
    """Extract a bundle, once for each version of its file; the files are removed with the temporary directory."""
    with _unpacking(file):
        directory = TemporaryDirectory(prefix="evopolicygym-bundle-")
    try:
        bundle = extract(file, Path(directory.name))
    except BaseException:
        directory.cleanup()
        raise
    return directory, bundle


@contextmanager
def _unpacking(file: Path) -> Iterator[None]:
    """Raise ``StorageError`` where what is unpacked can't be written."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"{file} can't be unpacked: {error.strerror or error}. Make room in the directory of temporary files, or "
            f"name another with TMPDIR."
        ) from error


def extract(file: Path, directory: Path) -> UnpackedBundle:
    """Extract a bundle into an empty directory and check it against its ``bundle.json``.

    Raises ``RecordError`` for members that aren't regular files or would lie outside, for archives that are too large,
    and for files and runs that are missing, changed, or not listed; ``StorageError`` if the files can't be written.
    Nothing is written before all names and sizes are checked, and nothing stays after an error.
    """
    try:
        with _open_archive(file) as archive:
            _check_members(archive)
        with _open_archive(file) as archive:
            index = _extract(archive, file, directory)
        unpacked = UnpackedBundle(file, directory, index)
        _check_runs(unpacked)
    except RecordError as error:
        _remove_content(directory)
        raise RecordError(f"{file} is refused: {error}") from error
    except BaseException as error:
        _remove_content(directory)
        if isinstance(error, _UNREADABLE):
            raise RecordError(f"{file} can't be read as a bundle: {error}") from error
        raise
    return unpacked


_UNREADABLE = (tarfile.TarError, zlib.error, OSError, EOFError, ValueError, OverflowError, RecursionError)


def _remove_content(directory: Path) -> None:
    for path in directory.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


@contextmanager
def _open_archive(file: Path) -> Iterator[tarfile.TarFile]:
    with _BoundedGzip(file) as packed, tarfile.open(fileobj=packed, mode="r:") as archive:
        yield archive


class _BoundedGzip(gzip.GzipFile):
    """Limits how much is read at once, in all, and of each compressed byte: an archive may claim any size."""

    def __init__(self, file: Path) -> None:
        super().__init__(file)
        self._most = min(MAX_BYTES, MAX_RATIO * file.stat().st_size)

    def read(self, size: int | None = -1) -> bytes:
        if size is None or not 0 <= size <= CHUNK:
            raise RecordError(f"a header claims more than {CHUNK:,} bytes.")
        self.check_size()
        return super().read(size)

    def check_size(self, more: int = 0) -> None:
        """Raise ``RecordError`` if what was read, and so many bytes more, are too many."""
        if self.tell() + more > self._most:
            raise RecordError(f"it holds more than {self._most:,} bytes, too many for its size.")


def _check_members(archive: tarfile.TarFile) -> None:
    """Check an archive's index, and the names and sizes of its files; no file's content is kept."""
    pending: set[str] | None = None
    for member in archive:
        path = _checked_path(member)
        archive.fileobj.check_size(member.size)  # type: ignore[attr-defined] # it is a _BoundedGzip
        if pending is None:
            if path != INDEX:
                raise RecordError(f"its first file is {path}; expected {INDEX}.")
            index = _read_index(archive, member)
            pending = set(index.files)
            continue
        if path not in pending:
            raise RecordError(f"{path} is not listed in {INDEX}, or comes twice.")
        pending.remove(path)
    if pending is None:
        raise RecordError("it is empty.")
    if pending:
        raise RecordError(f"{min(pending)} is missing, which {INDEX} lists.")


def _extract(archive: tarfile.TarFile, file: Path, directory: Path) -> BundleIndex:
    """Write the files of an archive whose members were checked; raise as ``extract`` does."""
    members = iter(archive)
    index = _read_index(archive, next(members, tarfile.TarInfo()))
    pending = dict(index.files)
    for member in members:
        path = _checked_path(member)
        if path not in pending:
            raise RecordError(f"{path} is not listed in {INDEX}, or comes twice.")
        target_path = directory / path
        with _unpacking(file):
            target_path.parent.mkdir(parents=True, exist_ok=True)
            target = target_path.open("xb", buffering=0)
        with target:
            if _copy(_content(archive, member), target, file) != pending.pop(path):
                raise RecordError(f"{path} does not have the SHA-256 that {INDEX} lists.")
    if pending:
        raise RecordError(f"{min(pending)} is missing, which {INDEX} lists.")
    return index


def _checked_path(member: tarfile.TarInfo) -> str:
    """Return a member's path; raise ``RecordError`` for members that aren't regular files at plain relative paths.

    This is stricter than tarfile's data filter, which not every Python 3.11 has; owners and modes are not restored.
    """
    path, shown = member.name, printable(member.name)[:200]
    if member.type not in {tarfile.REGTYPE, tarfile.AREGTYPE} or member.issparse():
        raise RecordError(f"{shown} is not a regular file.")
    if not is_valid_path(path):
        raise RecordError(f"{shown} is not a valid path in a bundle.")
    return path


def _read_index(archive: tarfile.TarFile, member: tarfile.TarInfo) -> BundleIndex:
    if member.size > MAX_INDEX:
        raise RecordError(f"its {INDEX} has more than {MAX_INDEX:,} bytes.")
    text = io.BytesIO()
    _copy(_content(archive, member), text, Path(INDEX))
    try:
        index: BundleIndex = decoder(BundleIndex).value(_check_schema(strict_json.decode(text.getvalue())))
    except Undecodable as error:
        raise RecordError(f"its {INDEX} can't be read: {error}.") from error
    if len(index.files) > MAX_FILES:
        raise RecordError(f"it lists more than {MAX_FILES:,} files.")
    runs = {run.path: run.run_id for run in index.runs}
    if len(runs) != len(index.runs):
        raise RecordError(f"{INDEX} lists a run twice.")
    check_layout(index.files.keys(), runs, {entry.name for entry in index.experiments})
    return index


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    content = archive.extractfile(member)
    if content is None:
        raise RecordError(f"{member.name} is not a regular file.")
    return content


def _copy(source: IO[bytes], target: io.RawIOBase | io.BytesIO, file: Path) -> str:
    """Copy a file of a bundle and return its SHA-256; raise ``StorageError`` if it can't be written."""
    total = hashlib.sha256()
    while chunk := source.read(CHUNK):
        total.update(chunk)
        rest = memoryview(chunk)
        while rest:
            with _unpacking(file):
                rest = rest[target.write(rest) :]
    return total.hexdigest()


def _check_runs(bundle: UnpackedBundle) -> None:
    """Raise ``RecordError`` if the runs are not those that the index lists, or its experiments' counts don't add up.

    An author can leave out a run that isn't listed: the counts are the author's own statement.
    """
    listed = {run.path: run for run in bundle.index.runs}
    present = {root.relative_to(bundle.directory).as_posix() for root in find_runs(bundle.directory)}
    if len(listed) != len(bundle.index.runs) or present != listed.keys():
        different = sorted(present ^ listed.keys())
        raise RecordError(
            f"its runs are not those that {INDEX} lists: {', '.join(different[:8]) or 'a run comes twice'}."
        )
    ids: dict[str, set[str]] = {}
    names = {entry.experiment: entry.name for entry in bundle.index.experiments}
    for path, run in listed.items():
        opened = read_run(bundle.directory / path).state.opened
        same = (opened.run_id, opened.experiment) == (run.run_id, run.experiment)
        if not same or experiment_name(bundle.directory / path, run.experiment) != names.get(run.experiment):
            raise RecordError(f"{path} is not the run that {INDEX} lists.")
        ids.setdefault(run.experiment, set()).add(run.run_id)
    if sorted(ids) != sorted(entry.experiment for entry in bundle.index.experiments):
        raise RecordError(f"its runs are not of the experiments that {INDEX} lists.")
    for entry in bundle.index.experiments:
        known = len(ids[entry.experiment].union(entry.missing))
        if ids[entry.experiment].intersection(entry.missing) or (entry.began is not None and entry.began > known):
            raise RecordError(f"{INDEX} doesn't say which of the {entry.began} runs of {entry.name} are missing.")
