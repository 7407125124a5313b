"""A checkpoint's files, as a stranger left them: read, hashed, and where they are Python, parsed; never run."""

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from evopolicygym.analysis.syntax import MOST_BYTES, Source, read_source

MOST_PARSED_BYTES = 4 * MOST_BYTES
"""Of one bundle; Python files beyond, in the order of their paths, count as such that can't be parsed."""
OTHER_CODE = frozenset({".c", ".cpp", ".h", ".pth", ".pyx", ".sh", ".so"})
"""Suffixes of files that are code but no Python."""
MOST_KNOWN = 100_000
"""Files of which is remembered what they are like."""


@dataclass(frozen=True, slots=True)
class File:
    """One file of a bundle."""

    sha256: str
    size: int
    is_code: bool
    source: Source | None = None
    """None where it is no Python."""


Bundle = Mapping[str, File]
"""Files by POSIX path."""

_known: dict[str, Source] = {}
"""Python files by their hash: most submissions repeat most files."""


def read_bundle(directory: Path) -> Bundle | None:
    """Return the files below a directory; None where there is no such directory."""
    if not directory.is_dir():
        return None
    files: dict[str, File] = {}
    parsed = 0
    for path in sorted(_regular_files(directory)):
        file, read = _read(path, MOST_PARSED_BYTES - parsed)
        parsed += read
        files[path.relative_to(directory).as_posix()] = file
    return files


def changed_paths(before: Bundle, after: Bundle) -> list[str]:
    """Return the paths that came, went or differ in any byte."""
    hashes = [{path: file.sha256 for path, file in bundle.items()} for bundle in (before, after)]
    return sorted({path for path, _ in hashes[0].items() ^ hashes[1].items()})


def _regular_files(directory: Path) -> Iterator[Path]:
    for folder, _, names in os.walk(directory):
        paths = (Path(folder) / name for name in names)
        yield from (path for path in paths if path.is_file() and not path.is_symlink())


def _read(path: Path, most: int) -> tuple[File, int]:
    """Return a file and how many bytes of it count as parsed."""
    size = path.stat().st_size
    if path.suffix != ".py":
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return File(digest, size, path.suffix in OTHER_CODE), 0
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    if len(content) > most:
        return File(digest, size, is_code=True, source=read_source(content, most)), 0
    return File(digest, size, is_code=True, source=_source(digest, content)), len(content)


def _source(digest: str, content: bytes) -> Source:
    if digest not in _known:
        if len(_known) >= MOST_KNOWN:
            _known.clear()
        _known[digest] = read_source(content)
    return _known[digest]
