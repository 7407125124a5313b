"""What changes whenever a file does: for caches of what was read from files."""

import hashlib
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from time import time

SETTLED_S = 2.0
"""Seconds for which files must have been unchanged; file systems have times of up to that coarseness."""


def settled_key(paths: Iterable[Path], seed: bytes = b"") -> bytes | None:
    """Return what identifies files, and all files below directories; None if they can't be relied on.

    Files are compared by path, kind, size, time of modification, time of change and inode. Files that were changed
    within the last ``SETTLED_S`` have no key, because a further change could leave all of these the same.
    """
    digest, newest = hashlib.blake2b(seed, digest_size=32), 0
    try:
        for name, status in statuses(paths):
            digest.update(repr((name, *stamp(status))).encode("utf-8", "surrogatepass"))
            newest = max(newest, status.st_ctime_ns, status.st_mtime_ns)
    except OSError:
        return None
    return digest.digest() if time() - newest / 1e9 > SETTLED_S else None


def stamp(status: os.stat_result) -> tuple[int, ...]:
    """Return what changes with a file's content."""
    return status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def statuses(paths: Iterable[Path]) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the status of each path that exists, and of all files and directories below it, in order."""
    for path in paths:
        try:
            status = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        yield str(path), status
        if stat.S_ISDIR(status.st_mode):
            yield from _below(str(path))


def _below(directory: str) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(directory) as listing:
        entries = sorted(listing, key=lambda entry: entry.name)
    for entry in entries:
        yield entry.path, entry.stat(follow_symlinks=False)
        if entry.is_dir(follow_symlinks=False):
            yield from _below(entry.path)


@cache
def code_key() -> bytes:
    """Return what identifies the package's files, which hold the published scores too, and the version of Python."""
    digest = hashlib.blake2b(sys.version.encode())
    for name, status in statuses([Path(__file__).parents[1]]):
        if "__pycache__" not in name and not stat.S_ISDIR(status.st_mode):
            digest.update(repr((name, *stamp(status))).encode("utf-8", "surrogatepass"))
    return digest.digest()
