"""Measures what no kernel limit bounds of an agent, from outside, a few times a second.

That is the size of ``system/``, of ``notes/`` and of a home that outlives a turn, directories of this machine; the
space left on its disk; and, where no control group could be made, memory and processes. It only measures: whoever
started the agent's program ends it.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from evopolicygym.core.agent import NOTES, SYSTEM, AgentLimits
from evopolicygym.sandbox.confinement import memory

LOOK_EVERY_S = 0.25
PAUSE_FACTOR = 10
"""A look is followed by at least so many times the time that it took."""
RESERVE_BYTES, RESERVE_FILES = 512 << 20, 10_000
"""What stays free on the disk for the run's own record; half of what was free at first, where that is less."""
MAX_DEPTH = 64
MEBIBYTE = 1 << 20


class Watch:
    """Looks after one agent."""

    def __init__(self, workspace: Path, limits: AgentLimits, crowd: "Crowd | None", home: Path | None = None) -> None:
        """Look after what may be written in a workspace, the processes of ``crowd``, and a home, where there are."""
        self._system = workspace / SYSTEM
        self._notes = workspace / NOTES if (workspace / NOTES).is_dir() else None
        self._home = home
        self._limits = limits
        self._crowd = crowd
        disk = os.statvfs(self._system)
        self._bytes = min(RESERVE_BYTES, disk.f_bavail * disk.f_frsize // 2)
        self._files = min(RESERVE_FILES, disk.f_favail // 2)
        self._next = 0.0

    def over(self) -> str:
        """Return in a sentence which limit is passed; empty where none is, or where it isn't time yet to look."""
        began = monotonic()
        if began < self._next:
            return ""
        found = self._over_disk() or self._over_memory() or self._over_system() or self._over_others()
        ended = monotonic()
        self._next = ended + max(LOOK_EVERY_S, PAUSE_FACTOR * (ended - began))
        return found

    def _over_disk(self) -> str:
        disk = os.statvfs(self._system)
        free = disk.f_bavail * disk.f_frsize
        if free < self._bytes:
            return f"The disk of system/ has {free // MEBIBYTE} MiB left; {self._bytes // MEBIBYTE} MiB must stay free."
        if disk.f_favail < self._files:
            return f"The disk of system/ takes {disk.f_favail} more files; room for {self._files} must stay."
        return ""

    def _over_system(self) -> str:
        return _over("system/", self._system, self._limits.system_mb, self._limits.system_files)

    def _over_others(self) -> str:
        """Return in a sentence what is wrong with the notes or the home, as far as there are any."""
        for name, root in (("notes/", self._notes), ("The home", self._home)):
            over = _over(name, root, self._limits.scratch_mb, self._limits.system_files) if root else ""
            if over:
                return over
        return ""

    def _over_memory(self) -> str:
        if self._crowd is None:
            return ""
        processes, tasks = list(self._crowd()), 0
        for process in processes:
            with suppress(OSError):
                tasks += Path(process, "task").stat().st_nlink - 2
        used = memory.of_processes(processes) + (memory.of_file_systems(self._crowd.first) if self._crowd.first else 0)
        if used > self._limits.memory_mb * MEBIBYTE:
            return (
                f"The program uses {used // MEBIBYTE} MiB of memory; at most {self._limits.memory_mb} MiB may be used."
            )
        if tasks > self._limits.processes:
            return f"The program runs {tasks} processes and threads; at most {self._limits.processes} may run."
        return ""


def _over(name: str, root: Path, most_mb: int, most_entries: int) -> str:
    used, entries = 0, 0
    try:
        for status in _statuses(root):
            used, entries = used + status.st_blocks * 512, entries + 1
            if used > most_mb * MEBIBYTE:
                return f"{name} holds more than {most_mb} MiB."
            if entries > most_entries:
                return f"{name} holds more than {most_entries} files and directories."
    except PermissionError:
        return f"{name} holds a directory that can't be looked into."
    except RecursionError:
        return f"{name} is deeper than {MAX_DEPTH} directories."
    return ""


@dataclass(frozen=True, slots=True)
class Crowd:
    """All processes of one program, as far as they can be distinguished from others."""

    first: str = ""
    """The directory in ``/proc`` of the first process of their namespace; empty where they have none."""
    mark: bytes = b""
    """What their environments hold, where they have no namespace."""

    def __call__(self) -> Iterator[str]:
        """Yield the directories in ``/proc`` of those that there are."""
        namespace = os.stat(f"{self.first}/ns/pid").st_ino if self.first else 0  # noqa: PTH116 - as below
        with os.scandir("/proc") as entries:
            for entry in entries:
                if entry.name.isdigit():
                    with suppress(OSError):
                        if namespace:
                            is_one = os.stat(f"{entry.path}/ns/pid").st_ino == namespace  # noqa: PTH116 - of thousands
                        else:
                            is_one = bool(self.mark) and self.mark in Path(entry.path, "environ").read_bytes()
                        if is_one:
                            yield entry.path


def _statuses(root: Path) -> Iterator[os.stat_result]:
    """Yield the status of everything below a directory that untrusted code may change at any moment; follow no link.

    Raises ``PermissionError`` for a directory that can't be opened, ``RecursionError`` for one that is too deep.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    path = [os.open(root, flags)]
    listings = []
    try:
        listings.append(os.scandir(path[0]))
        while listings:
            entry = next(listings[-1], None)
            if entry is None:
                listings.pop().close()
                os.close(path.pop())
                continue
            with suppress(FileNotFoundError, NotADirectoryError):  # it was there a moment ago
                status = entry.stat(follow_symlinks=False)
                yield status
                if stat.S_ISDIR(status.st_mode):
                    if len(path) > MAX_DEPTH:
                        raise RecursionError
                    path.append(os.open(entry.name, flags, dir_fd=path[-1]))
                    listings.append(os.scandir(path[-1]))
    finally:
        for listing in listings:
            listing.close()
        for descriptor in path:
            os.close(descriptor)
