"""A bundle: one archive of finished runs that anyone can verify, written with fixed bytes and read with suspicion.

Which files of a run go in is decided in ``runs/bundle.py``. ``bundle.json`` comes first and lists the hash of every
other file, the runs, and what their experiments began.
"""

import gzip
import hashlib
import io
import json
import os
import tarfile
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import IO, Any

from evopolicygym.core import regular_file, strict_json
from evopolicygym.core.decoding import Undecodable, decoder
from evopolicygym.core.errors import RecordError
from evopolicygym.core.text import printable
from evopolicygym.records import durable
from evopolicygym.records.reader import read_run
from evopolicygym.records.run_names import find_runs

SCHEMA = 1
INDEX = "bundle.json"
SUFFIXES = (".tar.gz", ".tgz")
RUNS = "runs"
"""The directory in a bundle that holds its runs, below their experiments."""
MOST_BYTES = 8 << 30
"""Of all files of a bundle together; a run of a suite has some 10 MB."""
MOST_FILES = 200_000
MOST_INDEX = 64 << 20
"""Bytes of ``bundle.json``."""
MOST_PATH = 1024
"""Characters of a file's path in a bundle."""
PIECE = 1 << 18
"""Bytes that are read at once. A header of an archive that claims more is refused."""
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
    """What the author's machine knows of an experiment's runs."""

    experiment: str
    name: str
    began: int | None
    """How many runs it began there; None where they are not listed there."""
    missing: tuple[str, ...]
    """The ids of those that are not in the bundle."""


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


def migrate(document: object) -> Mapping[str, Any]:
    """Return a ``bundle.json`` in today's schema; raise ``RecordError`` for one of another schema."""
    if not isinstance(document, Mapping):
        raise RecordError(f"Invalid {INDEX}: expected an object.")
    found = document.get("schema_version")
    if found == SCHEMA and not isinstance(found, bool):
        return document
    raise RecordError(f"Invalid {INDEX}: expected schema_version {SCHEMA}, got {printable(str(found))[:60]}.")


def is_bundle(path: Path) -> bool:
    """Return whether a path is a file that is named as a bundle is."""
    return path.name.endswith(SUFFIXES) and path.is_file()


def write_bundle(file: Path, sources: Mapping[str, Path | bytes], index: BundleIndex) -> None:
    """Write an archive of files by their paths in it; the same files give the same bytes.

    Raises ``OSError``, and ``RecordError`` where a file is not as the index has it.
    """
    part = durable.temp_path(file)
    try:
        with (
            part.open("xb") as raw,
            gzip.GzipFile("", "wb", LEVEL, raw, mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            text = (json.dumps(asdict(index), indent=2, sort_keys=True) + "\n").encode()
            archive.addfile(_member(INDEX, len(text)), io.BytesIO(text))
            for path, source in sorted(sources.items()):
                if isinstance(source, bytes):
                    archive.addfile(_member(path, len(source)), io.BytesIO(source))
                    continue
                with regular_file.reader(source) as opened:
                    archive.addfile(_member(path, os.fstat(opened.fileno()).st_size), opened)
                    opened.seek(0)
                    if hashlib.file_digest(opened, "sha256").hexdigest() != index.files[path]:
                        raise RecordError(f"{source} changed while it was bundled.")
        durable.rename(part, file)
    finally:
        part.unlink(missing_ok=True)


def _member(path: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(path)
    member.size, member.mode = size, MODE
    return member


def unpack(file: Path) -> UnpackedBundle:
    """Return a bundle's content, extracted until this program ends; raise ``RecordError`` where it isn't as it says."""
    status = file.stat()
    return _unpacked(file.resolve(), (status.st_ino, status.st_size, status.st_mtime_ns))[1]


@cache
def _unpacked(file: Path, _version: tuple[int, ...]) -> tuple[TemporaryDirectory[str], UnpackedBundle]:
    """Extract a bundle, once for each version of its file; who drops the first of both removes the files."""
    place = TemporaryDirectory(prefix="evopolicygym-bundle-")
    try:
        found = extract(file, Path(place.name))
    except BaseException:
        place.cleanup()
        raise
    return place, found


def extract(file: Path, directory: Path) -> UnpackedBundle:
    """Extract a bundle into an empty directory and check it against its ``bundle.json``.

    Raises ``RecordError`` where anything but regular files lies in it, one would lie elsewhere, it is larger than
    bundles are, or a file or a run is missing, changed, or not listed.
    """
    try:
        with (
            _BoundedGzip(file) as packed,
            tarfile.open(fileobj=packed, mode="r:") as archive,
        ):
            index = _extract(archive, directory)
    except (tarfile.TarError, zlib.error, OSError, EOFError, ValueError, OverflowError, RecursionError) as error:
        raise RecordError(f"{file} can't be read as a bundle: {error}") from error
    except RecordError as error:
        raise RecordError(f"{file} is refused: {error}") from error
    unpacked = UnpackedBundle(file, directory, index)
    try:
        _check_runs(unpacked)
    except RecordError as error:
        raise RecordError(f"{file} is refused: {error}") from error
    return unpacked


class _BoundedGzip(gzip.GzipFile):
    """Reads no more at once, and no more in all, than a bundle holds: an archive may claim any size."""

    def read(self, size: int | None = -1) -> bytes:
        if size is None or not 0 <= size <= PIECE:
            raise RecordError(f"a header claims more than {PIECE:,} bytes.")
        if self.tell() > MOST_BYTES:
            raise RecordError(f"it holds more than {MOST_BYTES:,} bytes.")
        return super().read(size)


def _extract(archive: tarfile.TarFile, directory: Path) -> BundleIndex:
    index: BundleIndex | None = None
    waiting: dict[str, str] = {}
    total = 0
    for member in archive:
        path = _checked_path(member)
        total += member.size
        if total > MOST_BYTES:
            raise RecordError(f"it holds more than {MOST_BYTES:,} bytes.")
        if index is None:
            if path != INDEX:
                raise RecordError(f"its first file is {path}; expected {INDEX}.")
            index = _read_index(archive, member)
            waiting = dict(index.files)
            continue
        if path not in waiting:
            raise RecordError(f"{path} is not listed in {INDEX}, or comes twice.")
        place = directory / path
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("xb") as target:
            if _copy(_content(archive, member), target) != waiting.pop(path):
                raise RecordError(f"{path} is not as {INDEX} has it: its SHA-256 differs.")
    if index is None:
        raise RecordError("it is empty.")
    if waiting:
        raise RecordError(f"{min(waiting)} is missing, which {INDEX} lists.")
    return index


def _checked_path(member: tarfile.TarInfo) -> str:
    """Return where a member lies; raise ``RecordError`` for what isn't a regular file at a plain path below.

    This is stricter than tarfile's data filter, which not every Python 3.11 has; owners and modes are not taken over.
    """
    path, shown = member.name, printable(member.name)[:MOST_PATH]
    if member.type not in {tarfile.REGTYPE, tarfile.AREGTYPE} or member.issparse():
        raise RecordError(f"{shown} is not a regular file.")
    plain = PurePosixPath(path)
    if (
        len(path) > MOST_PATH
        or plain.is_absolute()
        or ".." in plain.parts
        or not plain.parts
        or plain.as_posix() != path
        or not path.isprintable()
    ):
        raise RecordError(f"{shown} is not a path of a bundle.")
    return path


def _read_index(archive: tarfile.TarFile, member: tarfile.TarInfo) -> BundleIndex:
    if member.size > MOST_INDEX:
        raise RecordError(f"its {INDEX} has more than {MOST_INDEX:,} bytes.")
    text = io.BytesIO()
    _copy(_content(archive, member), text)
    try:
        index: BundleIndex = decoder(BundleIndex).value(migrate(strict_json.decode(text.getvalue())))
    except Undecodable as error:
        raise RecordError(f"its {INDEX} can't be read: {error}.") from error
    if len(index.files) > MOST_FILES:
        raise RecordError(f"it lists more than {MOST_FILES:,} files.")
    return index


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    content = archive.extractfile(member)
    if content is None:
        raise RecordError(f"{member.name} is not a regular file.")
    return content


def _copy(source: IO[bytes], target: IO[bytes]) -> str:
    """Copy what a file holds, and return its SHA-256."""
    total = hashlib.sha256()
    while piece := source.read(PIECE):
        total.update(piece)
        target.write(piece)
    return total.hexdigest()


def _check_runs(bundle: UnpackedBundle) -> None:
    """Raise ``RecordError`` where the runs are not those that the index lists, or its experiments' counts don't add up.

    Who made a bundle can leave out a run that it doesn't list; the counts are its author's word.
    """
    listed = {run.path: run for run in bundle.index.runs}
    there = {root.relative_to(bundle.directory).as_posix() for root in find_runs(bundle.directory)}
    if len(listed) != len(bundle.index.runs) or there != listed.keys():
        different = sorted(there ^ listed.keys())
        raise RecordError(
            f"its runs are not those that {INDEX} lists: {', '.join(different[:8]) or 'one comes twice'}."
        )
    ids: dict[str, set[str]] = {}
    for path, run in listed.items():
        opened = read_run(bundle.directory / path).state.opened
        if (opened.run_id, opened.experiment) != (run.run_id, run.experiment):
            raise RecordError(f"{path} is not the run that {INDEX} lists.")
        ids.setdefault(run.experiment, set()).add(run.run_id)
    if sorted(ids) != sorted(one.experiment for one in bundle.index.experiments):
        raise RecordError(f"its runs are not of the experiments that {INDEX} lists.")
    for one in bundle.index.experiments:
        began = len(ids[one.experiment].union(one.missing))
        if ids[one.experiment].intersection(one.missing) or (one.began is not None and one.began > began):
            raise RecordError(f"{INDEX} doesn't say which of the {one.began} runs of {one.name} are missing.")
