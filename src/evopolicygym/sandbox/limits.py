"""An agent's limits: what the kernel is given, what is measured from outside, and what holds, in words for the record.

``Watch`` measures what no kernel limit bounds, a few times a second: the size of ``system/``, of ``notes/`` and of a
home that outlives a turn; the space left on their disk; and, where no control group could be made, memory and
processes. It only measures: whoever started the agent's program ends it.
"""

import os
import platform
import re
import resource
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from time import monotonic
from typing import Any

from evopolicygym.core.agent import NOTES, SYSTEM, AgentLimits
from evopolicygym.core.errors import SandboxError
from evopolicygym.sandbox.cgroup import ControlGroup
from evopolicygym.sandbox.seccomp import agent_filter, seccomp_finding

OPEN_FILES = (1024, 16384)
"""Soft and hard: programs that wait with ``select`` take no more than the first, Node asks for the second."""
NICE = 10
"""Episodes are timed; what the agent computes at the same time comes last."""
MOST_OF_MEMORY = 0.75
NOT_COUNTED = "what lies in pipes and sockets is not counted, mapped files in memory are counted twice"
COUNTED_BY_NAMESPACE = (5, 14)
"""The first kernel on which RLIMIT_NPROC counts a namespace's processes and not all of a user."""
LOOK_EVERY_S = 0.25
PAUSE_FACTOR = 10
"""A look is followed by at least so many times the time that it took."""
RESERVE_BYTES, RESERVE_FILES = 512 << 20, 10_000
"""What stays free on the disk for the run's own record; half of what was free at first, where that is less."""
MAX_DEPTH = 64
MEBIBYTE = 1 << 20
KIBIBYTE, BLOCK = 1 << 10, 512
SHARES = {"Pss_Anon", "Pss_Shmem", "SwapPss"}
RESIDENT = {"RssAnon", "RssShmem", "VmSwap"}
"""What older kernels, and processes that can't be looked into, say: pages that several share count once for each."""
MEMORY_FILE = "/memfd:"
LEAST_WORKER_MEMORY = 4 << 30
"""Bytes that a worker may have on any machine."""


def fit_to_machine(limits: AgentLimits) -> AgentLimits:
    """Return limits that this machine's memory bears."""
    present = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // MEBIBYTE
    memory = min(limits.memory_mb, int(present * MOST_OF_MEMORY))
    return replace(limits, memory_mb=memory, scratch_mb=min(limits.scratch_mb, memory // 2))


def resource_limits(limits: AgentLimits, *, namespaced: bool = True) -> dict[str, tuple[int, int]]:
    """Return soft and hard resource limits by name.

    RLIMIT_AS is left alone: Node and whatever else reserves address space ends under it. So is RLIMIT_NPROC outside of
    a namespace of users: there it counts all that the user runs.
    """
    largest = limits.system_mb * MEBIBYTE
    found = {"RLIMIT_CORE": (0, 0), "RLIMIT_FSIZE": (largest, largest), "RLIMIT_NOFILE": OPEN_FILES}
    if namespaced and counts_by_namespace():
        found["RLIMIT_NPROC"] = (limits.processes, limits.processes)
    return found


def limit_findings(
    held: Mapping[str, Any], limits: AgentLimits, group: ControlGroup | None, *, namespaced: bool = True
) -> dict[str, str]:
    """Return in words what a workplace's stub found to hold; raise ``SandboxError`` where it may what it must not."""
    bounding = int(held["CapBnd"], 16) if namespaced else 0  # an ordinary user can't give it up, nor have any of it
    if int(held["CapEff"], 16) or int(held["CapPrm"], 16) or bounding or held["NoNewPrivs"] != "1":
        raise SandboxError("The agent's workplace has privileges that it should not have.")
    if agent_filter() and held["Seccomp"] != "2":
        raise SandboxError("The agent's workplace filters no system calls although it should.")
    largest, files = held["limits"]["RLIMIT_FSIZE"][1] // MEBIBYTE, held["limits"]["RLIMIT_NOFILE"][1]
    sizes = "".join(f"{place} {size // MEBIBYTE} MiB; " for place, size in held["sizes"].items())
    looked = f"looked at every {LOOK_EVERY_S:g} s, as no control group could be made"
    how = "by a control group" if group else looked
    return {
        "privileges": "no capabilities, no new privileges",
        "seccomp": seccomp_finding(),
        "memory": f"{limits.memory_mb} MiB, {how}" + ("" if group else f"; {NOT_COUNTED}"),
        "processes": f"{limits.processes} with their threads, {how}{_by_resource_limit(held)}",
        "files": f"{largest} MiB each, {files} open; {sizes}no core files",
        "system": f"{limits.system_mb} MiB and {limits.system_files} entries, looked at from outside",
        **({} if namespaced else {"not kept in": _outside(group)}),
    }


def _outside(group: ControlGroup | None) -> str:
    """Return in words what a program may do where it has no namespaces."""
    root = "" if os.geteuid() else ", which is root's, so that it can change all that root owns"
    counted = "" if group else "; what drops its environment is neither counted nor ended with it"
    return (
        f"it reads and writes this user's files{root}, signals this user's processes, reaches the network, and what it "
        f"started outlives a judge that is killed{counted}"
    )


def _by_resource_limit(held: Mapping[str, Any]) -> str:
    # The kernel never refuses a process to root for its number, whatever root is called in a namespace.
    return "; RLIMIT_NPROC besides" if "RLIMIT_NPROC" in held["limits"] and os.geteuid() else ""


@cache
def counts_by_namespace() -> bool:
    """Return whether the kernel counts a user's processes in each user namespace, as from Linux 5.14 on.

    Before that it counts them on the whole machine, and one policy's threads would starve another's.
    """
    version = re.match(r"(\d+)\.(\d+)", platform.release())
    return version is not None and tuple(map(int, version.groups())) >= COUNTED_BY_NAMESPACE


class Watch:
    """Looks after one agent."""

    def __init__(
        self, workspace: Path, limits: AgentLimits, crowd: "ProcessGroup | None", home: Path | None = None
    ) -> None:
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

    def limit_exceeded(self) -> str:
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
        return _size_exceeded("system/", self._system, self._limits.system_mb, self._limits.system_files)

    def _over_others(self) -> str:
        """Return in a sentence what is wrong with the notes or the home, as far as there are any."""
        for name, root in (("notes/", self._notes), ("The home", self._home)):
            over = _size_exceeded(name, root, self._limits.scratch_mb, self._limits.system_files) if root else ""
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
        used = memory_of_processes(processes) + (memory_of_file_systems(self._crowd.first) if self._crowd.first else 0)
        if used > self._limits.memory_mb * MEBIBYTE:
            return (
                f"The program uses {used // MEBIBYTE} MiB of memory; at most {self._limits.memory_mb} MiB may be used."
            )
        if tasks > self._limits.processes:
            return f"The program runs {tasks} processes and threads; at most {self._limits.processes} may run."
        return ""


def _size_exceeded(name: str, root: Path, most_mb: int, most_entries: int) -> str:
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
class ProcessGroup:
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


def memory_of_processes(processes: Iterable[str]) -> int:
    """Return the bytes that processes hold, named by their directories in ``/proc``."""
    mapped, files = 0, dict[tuple[int, int], int]()
    for process in processes:
        with suppress(OSError):  # it has ended
            mapped += _fields(process, "smaps_rollup", SHARES) or _fields(process, "status", RESIDENT)
            files |= dict(_files_in_memory(process))
    return mapped + sum(files.values())


def memory_of_file_systems(process: str) -> int:
    """Return the bytes that lie in the file systems in memory that a process sees; only its own may be among them.

    One that another file system is mounted over has no path that leads to it, and isn't counted.
    """
    used: dict[int, int] = {}
    with suppress(OSError):  # it has ended
        for line in Path(process, "mountinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            fields = line.split()
            if fields[fields.index("-") + 1] == "tmpfs":
                with suppress(OSError):
                    place, device = f"{process}/root{fields[4]}", os.makedev(*map(int, fields[2].split(":")))
                    if Path(place).stat().st_dev == device:
                        status = os.statvfs(place)
                        used[device] = (status.f_blocks - status.f_bfree) * status.f_frsize
    return sum(used.values())


def _fields(process: str, file: str, names: set[str]) -> int:
    """Return the sum of some fields of a file that the kernel writes in KiB; 0 where it can't be read."""
    with suppress(PermissionError, FileNotFoundError):
        lines = Path(process, file).read_text(encoding="utf-8").splitlines()
        pairs = (line.split(":", 1) for line in lines if ":" in line)
        return sum(int(text.split()[0]) * KIBIBYTE for name, text in pairs if name in names)
    return 0


def _files_in_memory(process: str) -> Iterator[tuple[tuple[int, int], int]]:
    """Yield each file in memory that a process has open, by device and number, with its bytes."""
    with suppress(PermissionError), os.scandir(f"{process}/fd") as descriptors:
        for descriptor in descriptors:
            with suppress(OSError):
                if os.readlink(descriptor.path).startswith(MEMORY_FILE):  # noqa: PTH115 - of thousands
                    status = descriptor.stat()
                    yield (status.st_dev, status.st_ino), status.st_blocks * BLOCK


def bound_memory(policy_mb: int = 0) -> None:
    """Have this process and its children refused more memory than half of this machine's; its policies have theirs."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    most = max(machine // 2, LEAST_WORKER_MEMORY, policy_mb * MEBIBYTE)
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    bounded = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (bounded, bounded))
