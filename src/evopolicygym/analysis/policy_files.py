"""A checkpoint's files, as an agent left them: read, hashed, and where they are Python, parsed; never run."""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from evopolicygym.analysis.syntax import MOST_BYTES, Source, read_source
from evopolicygym.core import regular_file
from evopolicygym.core.errors import RecordError

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


def read_bundle(directory: Path, root: Path | None = None) -> Bundle | None:
    """Return the files below a directory; None where there is no such directory, or it is no checkpoint.

    That is where anything but files and directories lies there, or a link below ``root`` leads there.
    """
    try:
        paths = sorted(path for path, _ in regular_file.below(directory, root))
    except (FileNotFoundError, RecordError):
        return None
    files: dict[str, File] = {}
    parsed = 0
    for path in paths:
        file, read = _read(path, directory, MOST_PARSED_BYTES - parsed)
        parsed += read
        files[path.relative_to(directory).as_posix()] = file
    return files


def changed_paths(before: Bundle, after: Bundle) -> list[str]:
    """Return the paths that came, went or differ in any byte."""
    hashes = [{path: file.sha256 for path, file in bundle.items()} for bundle in (before, after)]
    return sorted({path for path, _ in hashes[0].items() ^ hashes[1].items()})


def _read(path: Path, directory: Path, most: int) -> tuple[File, int]:
    """Return a file and how many bytes of it count as parsed."""
    with regular_file.reader(path, directory) as file:
        size = os.fstat(file.fileno()).st_size
        if path.suffix != ".py":
            return File(hashlib.file_digest(file, "sha256").hexdigest(), size, path.suffix in OTHER_CODE), 0
        content = file.read(most + 1)
        if len(content) > most:
            file.seek(0)
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            return File(digest, size, is_code=True, source=read_source(content, most)), 0
    digest = hashlib.sha256(content).hexdigest()
    return File(digest, size, is_code=True, source=_source(digest, content)), len(content)


def _source(digest: str, content: bytes) -> Source:
    if digest not in _known:
        if len(_known) >= MOST_KNOWN:
            _known.clear()
        _known[digest] = read_source(content)
    return _known[digest]
