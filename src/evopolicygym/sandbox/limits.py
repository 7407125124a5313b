"""An agent's limits: those of the kernel, those that are measured from outside, and the findings about them.

``Watch`` measures, a few times a second, what the kernel doesn't limit: the sizes of ``system/``, ``notes/`` and a
persistent home; the free space on their disk; and, without a control group, memory and processes. It doesn't end the
program.
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
"""Soft and hard limit: ``select`` supports only the first, Node needs the second."""
NICE = 10
"""Niceness of an agent's program: episodes, which are timed, come first."""
MEMORY_SHARE = 0.75
"""Largest share of the machine's memory."""
NOT_COUNTED = "what lies in pipes and sockets is not counted, mapped files in memory are counted twice"
COUNTED_BY_NAMESPACE = (5, 14)
"""First kernel with which RLIMIT_NPROC counts the processes of a namespace instead of a user."""
INTERVAL_S = 0.25
PAUSE_FACTOR = 10
"""Least pause after a measurement, as a multiple of its duration."""
RESERVE_BYTES, RESERVE_FILES = 512 << 20, 10_000
"""Space on the disk that must stay free for the run directory; at most half of what was free at first."""
MAX_DEPTH = 64
MEBIBYTE = 1 << 20
KIBIBYTE, BLOCK = 1 << 10, 512
SHARES = {"Pss_Anon", "Pss_Shmem", "SwapPss"}
RESIDENT = {"RssAnon", "RssShmem", "VmSwap"}
"""Fields of older kernels and unreadable processes: shared pages count once for each process."""
MEMORY_FILE = "/memfd:"
MIN_WORKER_MEMORY = 4 << 30
"""Bytes that a worker may use on any machine."""


def fit_to_machine(limits: AgentLimits) -> AgentLimits:
    """Return limits that fit this machine's memory."""
    machine_mb = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // MEBIBYTE
    memory = min(limits.memory_mb, int(machine_mb * MEMORY_SHARE))
    return replace(limits, memory_mb=memory, scratch_mb=min(limits.scratch_mb, memory // 2))


def resource_limits(limits: AgentLimits, *, namespaced: bool = True) -> dict[str, tuple[int, int]]:
    """Return soft and hard resource limits by name.

    RLIMIT_AS is not set, since Node and others reserve much address space. Nor is RLIMIT_NPROC outside of a user
    namespace, where it counts all processes of the user.
    """
    largest = limits.system_mb * MEBIBYTE
    by_name = {"RLIMIT_CORE": (0, 0), "RLIMIT_FSIZE": (largest, largest), "RLIMIT_NOFILE": OPEN_FILES}
    if namespaced and counts_by_namespace():
        by_name["RLIMIT_NPROC"] = (limits.processes, limits.processes)
    return by_name


def limit_findings(
    report: Mapping[str, Any], limits: AgentLimits, group: ControlGroup | None, *, namespaced: bool = True
) -> dict[str, str]:
    """Return findings from a stub's report of its limits and rights; raise ``SandboxError`` for excess rights."""
    bounding = int(report["CapBnd"], 16) if namespaced else 0  # an ordinary user can't give it up, nor have any of it
    if int(report["CapEff"], 16) or int(report["CapPrm"], 16) or bounding or report["NoNewPrivs"] != "1":
        raise SandboxError("The agent's workplace has privileges that it should not have.")
    if agent_filter() and report["Seccomp"] != "2":
        raise SandboxError("The agent's workplace filters no system calls although it should.")
    largest, files = report["limits"]["RLIMIT_FSIZE"][1] // MEBIBYTE, report["limits"]["RLIMIT_NOFILE"][1]
    sizes = "".join(f"{path} {size // MEBIBYTE} MiB; " for path, size in report["sizes"].items())
    watched = f"looked at every {INTERVAL_S:g} s, as no control group could be made"
    how = "by a control group" if group else watched
    return {
        "privileges": "no capabilities, no new privileges",
        "seccomp": seccomp_finding(),
        "memory": f"{limits.memory_mb} MiB, {how}" + ("" if group else f"; {NOT_COUNTED}"),
        "processes": f"{limits.processes} with their threads, {how}{_by_resource_limit(report)}",
        "files": f"{largest} MiB each, {files} open; {sizes}no core files",
        "system": f"{limits.system_mb} MiB and {limits.system_files} entries, looked at from outside",
        **({} if namespaced else {"not kept in": _outside(group)}),
    }


def _outside(group: ControlGroup | None) -> str:
    """Return the finding on what a program without namespaces can do."""
    root = "" if os.geteuid() else ", which is root's, so that it can change all that root owns"
    counted = "" if group else "; what drops its environment is neither counted nor ended with it"
    return (
        f"it reads and writes this user's files{root}, signals this user's processes, reaches the network, and what it "
        f"started outlives a judge that is killed{counted}"
    )


def _by_resource_limit(report: Mapping[str, Any]) -> str:
    # RLIMIT_NPROC never limits root, whatever its number in a namespace.
    return "; RLIMIT_NPROC besides" if "RLIMIT_NPROC" in report["limits"] and os.geteuid() else ""


@cache
def counts_by_namespace() -> bool:
    """Return whether the kernel counts a user's processes in each user namespace, as Linux does from 5.14 on.

    Older kernels count them on the whole machine, and one policy's threads would starve another's.
    """
    version = re.match(r"(\d+)\.(\d+)", platform.release())
    return version is not None and tuple(map(int, version.groups())) >= COUNTED_BY_NAMESPACE


class Watch:
    """Measures the resources of one agent."""

    def __init__(
        self, workspace: Path, limits: AgentLimits, processes: "ProcessGroup | None", home: Path | None = None
    ) -> None:
        """Measure the writable parts of a workspace and, if given, a process group and a home."""
        self._system = workspace / SYSTEM
        self._notes = workspace / NOTES if (workspace / NOTES).is_dir() else None
        self._home = home
        self._limits = limits
        self._processes = processes
        disk = os.statvfs(self._system)
        self._bytes = min(RESERVE_BYTES, disk.f_bavail * disk.f_frsize // 2)
        self._files = min(RESERVE_FILES, disk.f_favail // 2)
        self._next = 0.0

    @property
    def memory_mb(self) -> int:
        """The limit of memory in MiB."""
        return self._limits.memory_mb

    def limit_exceeded(self) -> str:
        """Return a sentence with the limit that is exceeded; empty if none is, or between measurements."""
        start = monotonic()
        if start < self._next:
            return ""
        problem = self._over_disk() or self._over_memory() or self._over_system() or self._over_others()
        end = monotonic()
        self._next = end + max(INTERVAL_S, PAUSE_FACTOR * (end - start))
        return problem

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
        """Return a sentence with an exceeded limit of the notes or the home."""
        for name, root in (("notes/", self._notes), ("The home", self._home)):
            over = _size_exceeded(name, root, self._limits.scratch_mb, self._limits.system_files) if root else ""
            if over:
                return over
        return ""

    def _over_memory(self) -> str:
        if self._processes is None:
            return ""
        processes, tasks = list(self._processes()), 0
        for process in processes:
            with suppress(OSError):
                tasks += Path(process, "task").stat().st_nlink - 2
        used = memory_of_processes(processes) + (
            memory_of_file_systems(self._processes.first) if self._processes.first else 0
        )
        if used > self._limits.memory_mb * MEBIBYTE:
            return (
                f"The program uses {used // MEBIBYTE} MiB of memory; at most {self._limits.memory_mb} MiB may be used."
            )
        if tasks > self._limits.processes:
            return f"The program runs {tasks} processes and threads; at most {self._limits.processes} may run."
        return ""


def _size_exceeded(name: str, root: Path, max_mb: int, max_entries: int) -> str:
    used, entries = 0, 0
    try:
        for status in _statuses(root):
            used, entries = used + status.st_blocks * 512, entries + 1
            if used > max_mb * MEBIBYTE:
                return f"{name} holds more than {max_mb} MiB."
            if entries > max_entries:
                return f"{name} holds more than {max_entries} files and directories."
    except PermissionError:
        return f"{name} holds a directory that can't be read."
    except RecursionError:
        return f"{name} is deeper than {MAX_DEPTH} directories."
    return ""


@dataclass(frozen=True, slots=True)
class ProcessGroup:
    """The processes of a program, known by their pid namespace or by a mark in their environment."""

    first: str = ""
    """Directory in ``/proc`` of the first process of their namespace; empty without a namespace."""
    mark: bytes = b""
    """Bytes in their environments, if they have no namespace."""

    def __call__(self) -> Iterator[str]:
        """Yield their directories in ``/proc``; none once the first process has ended."""
        try:
            namespace = os.stat(f"{self.first}/ns/pid").st_ino if self.first else 0  # noqa: PTH116 - as below
        except FileNotFoundError:
            return
        with os.scandir("/proc") as entries:
            for entry in entries:
                if entry.name.isdigit():
                    with suppress(OSError):
                        if namespace:
                            belongs = os.stat(f"{entry.path}/ns/pid").st_ino == namespace  # noqa: PTH116 - faster
                        else:
                            belongs = bool(self.mark) and self.mark in Path(entry.path, "environ").read_bytes()
                        if belongs:
                            yield entry.path


def _statuses(root: Path) -> Iterator[os.stat_result]:
    """Yield the status of everything below a directory, which untrusted code may change meanwhile; follow no link.

    Raises ``PermissionError`` for an unreadable directory, ``RecursionError`` for one that is too deep.
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
            with suppress(FileNotFoundError, NotADirectoryError):  # removed meanwhile
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
    """Return the memory of processes in bytes, given their directories in ``/proc``."""
    mapped, files = 0, dict[tuple[int, int], int]()
    for process in processes:
        with suppress(OSError):  # it has ended
            mapped += _fields(process, "smaps_rollup", SHARES) or _fields(process, "status", RESIDENT)
            files |= dict(_files_in_memory(process))
    return mapped + sum(files.values())


def memory_of_file_systems(process: str) -> int:
    """Return the bytes in the tmpfs file systems that a process sees, all of which must be its own.

    One below another mount point can't be reached, and isn't counted.
    """
    used: dict[int, int] = {}
    with suppress(OSError):  # it has ended
        for line in Path(process, "mountinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            fields = line.split()
            if fields[fields.index("-") + 1] == "tmpfs":
                with suppress(OSError):
                    mount_point, device = f"{process}/root{fields[4]}", os.makedev(*map(int, fields[2].split(":")))
                    if Path(mount_point).stat().st_dev == device:
                        status = os.statvfs(mount_point)
                        used[device] = (status.f_blocks - status.f_bfree) * status.f_frsize
    return sum(used.values())


def _fields(process: str, file: str, names: set[str]) -> int:
    """Return the sum in bytes of some fields of a file of the kernel, which has KiB; 0 if it can't be read."""
    with suppress(PermissionError, FileNotFoundError):
        lines = Path(process, file).read_text(encoding="utf-8").splitlines()
        pairs = (line.split(":", 1) for line in lines if ":" in line)
        return sum(int(text.split()[0]) * KIBIBYTE for name, text in pairs if name in names)
    return 0


def _files_in_memory(process: str) -> Iterator[tuple[tuple[int, int], int]]:
    """Yield each memory file that a process has open, by device and number, with its bytes."""
    with suppress(PermissionError), os.scandir(f"{process}/fd") as descriptors:
        for descriptor in descriptors:
            with suppress(OSError):
                if os.readlink(descriptor.path).startswith(MEMORY_FILE):  # noqa: PTH115 - of thousands
                    status = descriptor.stat()
                    yield (status.st_dev, status.st_ino), status.st_blocks * BLOCK


def bound_memory(policy_mb: int = 0) -> None:
    """Limit this process and its children to half of this machine's memory; policies have limits of their own."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = max(machine // 2, MIN_WORKER_MEMORY, policy_mb * MEBIBYTE)
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    bound = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (bound, bound))
