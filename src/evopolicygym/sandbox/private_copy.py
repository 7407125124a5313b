"""A run's own copy, in memory, of all that its policies can open: made once, and shared by the run's workers.

A disk's file system remembers which names were looked up, even names that don't exist, and answers faster the next
time, whoever asks; an overlay asks it too. A file system in memory remembers none. What lies there is in memory whether
or not it was read, so neither names nor pages tell a later policy, run or agent what a policy did. The copy has the
machine's bytecode, which no other program of the machine can change any more.
"""

import fcntl
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

from evopolicygym.core.errors import SandboxError
from evopolicygym.sandbox import cgroup
from evopolicygym.sandbox.overlays import PLACES, Layers, open_without_access_time

ANSWER, MADE = "answer", "made"
"""A file that says whether the copy is made or why not, and its content if it is."""
REMOVED = (
    "The copy of policies' files in {} was removed while a run played. systemd-logind removes what an ordinary user "
    "has in /dev/shm when all sessions of the user have ended: set RemoveIPC=no in logind.conf, or enable lingering."
)
KEPT_FREE = 1 << 30
"""Bytes of memory that must stay available for simulators and policies."""
LARGEST = 1 << 30
"""Most bytes of a copy: a run that lets its policies import packages of gigabytes would make it for seconds."""
FOR_LINKERS = ".a"
PAGE = os.sysconf("SC_PAGE_SIZE")
Source = tuple[str, str]
"""A path in the copy, and the machine's file or directory that is copied there."""
_Entry = tuple[str, str, os.stat_result]
"""A path in the copy, the machine's path, and what lies there."""


def new_directory() -> Layers | None:
    """Return a directory in memory for the copy of a run, which its owner closes; None if none can be made here."""
    parent, _ = _memory_directory()
    with suppress(OSError):
        return Layers(parent) if parent else None
    return None


def shared_copy(directory: Path | None, sources: Iterable[Source]) -> tuple[Path | None, str]:
    """Return the copy in a run's directory, which the first worker makes while others wait; else None, and why."""
    if directory is None:
        return None, _memory_directory()[1] or "no directory in memory is given for it"
    if not directory.exists():
        raise SandboxError(REMOVED.format(directory))
    with (directory / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        answer = directory / ANSWER
        if not answer.exists():
            answer.write_text(_make(directory / "copy", sources), encoding="utf-8")
        why = answer.read_text(encoding="utf-8")
    return (directory / "copy", "") if why == MADE else (None, why)


def need_copy(copy: Path) -> None:
    """Raise ``SandboxError`` if a copy was removed: a policy that then finds no module has not failed."""
    if not (copy.parent / ANSWER).exists():
        raise SandboxError(REMOVED.format(copy.parent))


def pages_finding() -> str:
    """Return the finding on the pages of a copy, which only a swap device can take out of memory."""
    with suppress(OSError):
        if len(Path("/proc/swaps").read_text(encoding="ascii").splitlines()) > 1:
            return "in memory while the machine has enough"
    return "always in memory"


@cache
def _memory_directory() -> tuple[str, str]:
    """Return the first directory of layers that is a file system in memory with programs; empty, and why, if none."""
    mounts = [line.split(" - ") for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()]
    kinds = {mount.split()[4]: kind.split()[0] for mount, kind in mounts}
    in_memory = [
        parent for parent in PLACES if kinds.get(os.path.realpath(parent)) == "tmpfs" and os.access(parent, os.W_OK)
    ]
    for parent in in_memory:
        if not os.statvfs(parent).f_flag & os.ST_NOEXEC:
            return parent, ""
    if in_memory:
        return "", f"no program can be run in {', '.join(in_memory)}, which is mounted noexec"
    return "", f"none of {', '.join(PLACES)} is a file system in memory"


def _make(copy: Path, sources: Iterable[Source]) -> str:
    """Make a copy; return ``MADE``, or why it can't be made."""
    shutil.rmtree(copy, ignore_errors=True)  # of a worker that was killed
    entries = {entry[0]: entry for inside, source in sources for entry in _entries(inside, source)}.values()
    size = sum(-(-status.st_size // PAGE) * PAGE for _, _, status in entries)
    room = os.statvfs(copy.parent)
    for free, where in (
        (LARGEST, "a copy"),
        (room.f_bavail * room.f_frsize, str(copy.parent.parent)),
        (cgroup.available_memory() - KEPT_FREE, f"memory beside {KEPT_FREE >> 20} MiB"),
    ):
        if size > free:
            return f"it takes {size >> 20} MiB, and {where} has {max(0, free) >> 20} MiB"
    try:
        _copy(copy, list(entries))
    except OSError as error:
        shutil.rmtree(copy, ignore_errors=True)
        return f"it can't be made: {error}"
    return MADE


def _entries(inside: str, source: str) -> Iterator[_Entry]:
    """Yield a file, or a directory with all below it; links are kept below a directory, or if they stay where they are.

    What this user can't read, or was removed meanwhile, no policy can open. Libraries for linkers, of 40 MiB, no policy
    needs.
    """
    with suppress(FileNotFoundError, PermissionError):
        status = os.stat(source, follow_symlinks=inside != source)  # noqa: PTH116 - faster for thousands, here and below
        yield inside, source, status
        if stat.S_ISDIR(status.st_mode):
            yield from _below(inside, source)


def _below(inside: str, source: str) -> Iterator[_Entry]:
    with os.scandir(source) as entries:
        for entry in entries:
            if entry.name.endswith(FOR_LINKERS):
                continue
            status, path = entry.stat(follow_symlinks=False), f"{inside}/{entry.name}"
            yield path, entry.path, status
            if stat.S_ISDIR(status.st_mode):
                with suppress(FileNotFoundError, PermissionError):
                    yield from _below(path, entry.path)


def _copy(copy: Path, entries: list[_Entry]) -> None:
    """Copy entries with their times, by which Python accepts their bytecode; every user can read the copy."""
    times = dict[str, int]()
    for inside, _, _ in entries:
        parent = os.path.dirname(inside)  # noqa: PTH120
        while parent not in times:
            times[parent] = 0
            parent = os.path.dirname(parent)  # noqa: PTH120
    times |= {inside: status.st_mtime_ns for inside, _, status in entries if stat.S_ISDIR(status.st_mode)}
    for directory in sorted(times):
        os.makedirs(f"{copy}{directory}", exist_ok=True)  # noqa: PTH103
    for inside, source, status in entries:
        with suppress(FileNotFoundError, PermissionError):
            if stat.S_ISLNK(status.st_mode):
                os.symlink(os.readlink(source), f"{copy}{inside}")  # noqa: PTH115, PTH211
            elif stat.S_ISREG(status.st_mode):
                _copy_file(source, f"{copy}{inside}", status)
    for directory, time in times.items():
        os.chmod(f"{copy}{directory}", 0o755)  # noqa: PTH101, S103 - it is bound read-only
        os.utime(f"{copy}{directory}", ns=(time, time))


def _copy_file(source: str, target: str, status: os.stat_result) -> None:
    read = open_without_access_time(source, os.O_RDONLY | os.O_NONBLOCK)
    try:
        written = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            while os.sendfile(written, read, None, 1 << 30):
                pass
            os.fchmod(written, 0o755 if status.st_mode & 0o111 else 0o644)
            os.utime(written, ns=(status.st_mtime_ns, status.st_mtime_ns))
        finally:
            os.close(written)
    finally:
        os.close(read)
