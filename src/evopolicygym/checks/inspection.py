"""Finds what untrusted code left behind: processes, and files that contain given words."""

import ctypes
import gzip
import os
import signal
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import IO

PR_SET_CHILD_SUBREAPER = 36
GONE_S = 2.0
"""Seconds within which all processes of a policy must have ended."""


@contextmanager
def orphans_adopted() -> Iterator[None]:
    """Make this process the subreaper of its descendants: orphans become its children, not those of process 1."""
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def descendants(ancestor: int) -> set[int]:
    """Return the numbers of all descendants of a process, zombies included.

    Direct children that are zombies are excluded: adopted orphans that nobody waits for.
    """
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
                if state != "Z" or int(parent) != ancestor:
                    parents[int(entry.name)] = int(parent)
    found: set[int] = set()
    level = {ancestor}
    while level := {number for number, parent in parents.items() if parent in level} - found:
        found |= level
    return found


def left_beyond(count: int) -> int:
    """Return how many descendants more than ``count`` remain ``GONE_S`` seconds after a policy's end."""
    patience = monotonic() + GONE_S
    while (left := len(descendants(os.getpid())) - count) > 0 and monotonic() < patience:
        sleep(0.02)
    return max(0, left)


def end_adopted(ours: set[int]) -> None:
    """Kill all adopted orphans: every child except ``ours``."""
    for number in _children(os.getpid()) - ours:
        with suppress(OSError):
            os.kill(number, signal.SIGKILL)
            os.waitpid(number, 0)


def _children(parent: int) -> set[int]:
    children = descendants(parent)
    return children - {number for child in children for number in descendants(child)}


CHUNK_BYTES = 1 << 20
GZIP = b"\x1f\x8b"


def files_containing(directory: Path, words: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    """Yield every file in a directory tree that contains a word, with the word's name; archives are unpacked."""
    words_by_name = {name: word.encode() for name, word in words.items() if word}
    for place, directories, files in os.walk(directory):
        for entry in (*directories, *files):
            path = Path(place, entry)
            link = str(path.readlink()) if path.is_symlink() else ""
            found = {
                name for name, word in words_by_name.items() if word in f"{entry}\n{link}".encode("utf-8", "replace")
            }
            if path.is_file() and not path.is_symlink():
                found |= _words_in_file(path, words_by_name)
            yield from ((path, name) for name in sorted(found))


def _words_in_file(path: Path, words_by_name: Mapping[str, bytes]) -> set[str]:
    with path.open("rb") as file:
        found = _read(file, words_by_name)
        file.seek(0)
        begins = file.read(len(GZIP))
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                for name in archive.namelist():
                    with archive.open(name) as part:
                        found |= _read(part, words_by_name)
        elif begins == GZIP:
            with gzip.open(path) as unpacked:
                found |= _read(unpacked, words_by_name)
    except (OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error):
        return found  # it is not really compressed
    return found


def _read(file: "IO[bytes] | gzip.GzipFile", words_by_name: Mapping[str, bytes]) -> set[str]:
    longest = max((len(word) for word in words_by_name.values()), default=1)
    found, rest = set(), b""
    while data := file.read(CHUNK_BYTES):
        text = rest + data
        found |= {name for name, word in words_by_name.items() if word in text}
        rest = text[1 - longest :] if longest > 1 else b""
    return found
