"""Searches for what untrusted code left behind: processes, and files that contain given words."""

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
"""Seconds in which all processes of a policy must end."""


@contextmanager
def orphans_adopted() -> Iterator[None]:
    """Make this process the subreaper of its descendants: it adopts orphans."""
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def descendants(ancestor: int) -> set[int]:
    """Return the ids of a process's descendants; zombies count, except its children, which are adopted orphans."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
                if state != "Z" or int(parent) != ancestor:
                    parents[int(entry.name)] = int(parent)
    below: set[int] = set()
    level = {ancestor}
    while level := {number for number, parent in parents.items() if parent in level} - below:
        below |= level
    return below


def left_beyond(count: int) -> int:
    """Return how many descendants more than ``count`` there are ``GONE_S`` seconds after a policy's end."""
    deadline = monotonic() + GONE_S
    while (excess := len(descendants(os.getpid())) - count) > 0 and monotonic() < deadline:
        sleep(0.02)
    return max(0, excess)


def end_adopted(own_processes: set[int]) -> None:
    """Kill all adopted orphans: every child that isn't in ``own_processes``."""
    for number in _children(os.getpid()) - own_processes:
        with suppress(OSError):
            os.kill(number, signal.SIGKILL)
            os.waitpid(number, 0)


def _children(parent: int) -> set[int]:
    children = descendants(parent)
    return children - {number for child in children for number in descendants(child)}


CHUNK_BYTES = 1 << 20
GZIP = b"\x1f\x8b"


def files_containing(directory: Path, words: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    """Yield each path below a directory whose name or content has a word, with the word's name; archives are unpacked.

    ``words`` has the words by name.
    """
    words_by_name = {name: word.encode() for name, word in words.items() if word}
    for folder, directories, files in os.walk(directory):
        for entry in (*directories, *files):
            path = Path(folder, entry)
            link = str(path.readlink()) if path.is_symlink() else ""
            names = {
                name for name, word in words_by_name.items() if word in f"{entry}\n{link}".encode("utf-8", "replace")
            }
            if path.is_file() and not path.is_symlink():
                names |= _words_in_file(path, words_by_name)
            yield from ((path, name) for name in sorted(names))


def _words_in_file(path: Path, words_by_name: Mapping[str, bytes]) -> set[str]:
    with path.open("rb") as file:
        names = _read(file, words_by_name)
        file.seek(0)
        start = file.read(len(GZIP))
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                for name in archive.namelist():
                    with archive.open(name) as part:
                        names |= _read(part, words_by_name)
        elif start == GZIP:
            with gzip.open(path) as unpacked:
                names |= _read(unpacked, words_by_name)
    except (OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error):
        return names  # not compressed after all
    return names


def _read(file: "IO[bytes] | gzip.GzipFile", words_by_name: Mapping[str, bytes]) -> set[str]:
    longest = max((len(word) for word in words_by_name.values()), default=1)
    names, rest = set(), b""
    while data := file.read(CHUNK_BYTES):
        text = rest + data
        names |= {name for name, word in words_by_name.items() if word in text}
        rest = text[1 - longest :] if longest > 1 else b""
    return names
