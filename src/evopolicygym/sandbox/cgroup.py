"""Control groups of version 2, in which the kernel counts processes and memory, if this user may create them.

That needs a group of this user whose children get the controllers: as root, or in a delegated part of the tree, as by
``systemd-run --user --scope``. Without one, ``limits.Watch`` counts from outside.
"""

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import monotonic, sleep

from evopolicygym.core.errors import SandboxError

JOIN = """
import os, sys
open(sys.argv[1] + "/cgroup.procs", "w").write(str(os.getpid()))
os.environ.pop("LC_CTYPE", None)
os.execve(sys.argv[2], sys.argv[3:], os.environ)
"""
"""Python may set the variable, which is removed again."""
RETRY_S = 0.005
PREFIX = "evopolicygym"
STRAY_S = 60.0
"""Seconds after which a group whose creator is gone is removed: its creator was killed."""
MOUNTS, MEMBERSHIP = Path("/proc/self/mountinfo"), Path("/proc/self/cgroup")


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """A group that a process can join."""

    directory: Path

    def join_command(self, program: str, words: Sequence[str]) -> list[str]:
        """Return the command line of a process that joins, then becomes a program; ``words`` start with its name."""
        return [sys.executable, "-I", "-S", "-c", JOIN, str(self.directory), program, *words]

    def memory_kills(self) -> int:
        """Return how many of its processes the kernel killed for the group's memory."""
        with suppress(OSError):
            lines = (self.directory / "memory.events.local").read_text(encoding="utf-8").splitlines()
            return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)
        return 0

    def remove(self, patience_s: float) -> None:
        """Kill all processes in the group and remove it; raise ``SandboxError`` if one can't be killed."""
        _remove(self.directory, monotonic() + patience_s)


def make(processes: int, memory_mb: int | None = None) -> ControlGroup | None:
    """Return a new group with these limits; None if this user can't create one."""
    parent = _parent(("pids",) if memory_mb is None else ("memory", "pids"))
    if parent is None:
        return None
    group = ControlGroup(parent / f"{PREFIX}-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        group.directory.mkdir()
        _limit(group.directory, processes, memory_mb)
        _sweep(parent, group.directory.stat().st_ctime)
    except OSError:
        group.remove(0.0)
        return None
    return group


def can_be_made() -> bool:
    """Return whether this user can create a group that counts processes."""
    return _parent(("pids",)) is not None


def clear(makers: Iterable[int], patience_s: float) -> None:
    """Remove the groups of ended processes; those that aren't empty in time are left to a later run."""
    prefixes = {f"{PREFIX}-{maker}" for maker in makers}
    deadline = monotonic() + patience_s
    for parent in _candidates(("pids",)):
        for directory in parent.glob(f"{PREFIX}-*-*"):
            if directory.name.rpartition("-")[0] in prefixes:
                with suppress(SandboxError):
                    _remove(directory, deadline)


def available_memory() -> int:
    """Return the bytes of memory that this process can still get, by the machine and by its control groups."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    free = [int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")]
    for group in _own_groups():
        with suppress(OSError, ValueError):  # the uppermost group has no limit, another may have "max"
            limit, used = (int((group / name).read_text(encoding="ascii")) for name in ("memory.max", "memory.current"))
            counts = dict(line.split() for line in (group / "memory.stat").read_text(encoding="ascii").splitlines())
            free.append(limit - used + int(counts["file"]) - int(counts["shmem"]))
    return min(free)


def _remove(directory: Path, deadline: float) -> None:
    while True:
        try:
            directory.rmdir()
        except FileNotFoundError:
            return
        except OSError as error:
            if monotonic() > deadline:
                raise SandboxError(f"A control group still has processes: {directory}.") from error
            _kill_all(directory)
            sleep(RETRY_S)
        else:
            return


def _kill_all(directory: Path) -> None:
    with suppress(OSError):
        for process in (directory / "cgroup.procs").read_text(encoding="utf-8").split():
            with suppress(ProcessLookupError):
                os.kill(int(process), signal.SIGKILL)


def _sweep(parent: Path, now: float) -> None:
    """Remove empty groups whose creator was killed; ``now`` is the file system's time."""
    for directory in parent.glob(f"{PREFIX}-*-*"):
        maker = directory.name.split("-")[1]
        with suppress(OSError):
            if not Path("/proc", maker).exists() and now - directory.stat().st_ctime > STRAY_S:
                directory.rmdir()


def _limit(directory: Path, processes: int, memory_mb: int | None) -> None:
    """Write the limits of a group; raise ``OSError`` if it doesn't have the controllers."""
    limits = {"pids.max": processes}
    if memory_mb is not None:
        limits["memory.max"] = memory_mb << 20
        if (directory / "memory.swap.max").exists():  # a kernel may count no swap
            limits["memory.swap.max"] = 0
    for name, amount in limits.items():
        (directory / name).write_text(str(amount), encoding="utf-8")


@cache
def _parent(controllers: tuple[str, ...]) -> Path | None:
    """Return a group whose children this user can limit and join; None if there is none."""
    return next(filter(_can_be_joined, _candidates(controllers)), None)


def _candidates(controllers: tuple[str, ...]) -> Iterator[Path]:
    """Yield the groups, from this process's group upwards, whose children get the controllers."""
    for directory in _own_groups():
        control = directory / "cgroup.subtree_control"
        given = set(control.read_text(encoding="utf-8").split()) if control.is_file() else set()
        if given >= set(controllers) and os.access(directory, os.W_OK):
            yield directory


def _own_groups() -> Iterator[Path]:
    """Yield this process's group, and those above it."""
    membership = [line.split(":", 2) for line in MEMBERSHIP.read_text(encoding="utf-8").splitlines()]
    own = next((path for number, _, path in membership if number == "0"), None)
    for line in MOUNTS.read_text(encoding="utf-8").splitlines():
        mount = line.split()
        if mount[mount.index("-") + 1] == "cgroup2" and own is not None:
            yield from _upwards(mount, own)


def _can_be_joined(parent: Path) -> bool:
    trial = ControlGroup(parent / f"{PREFIX}-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        trial.directory.mkdir()
        return not subprocess.run(
            trial.join_command("/bin/true", ["true"]), capture_output=True, check=False
        ).returncode
    except OSError:
        return False
    finally:
        with suppress(SandboxError):
            trial.remove(1.0)


def _upwards(mount: Sequence[str], own: str) -> Iterator[Path]:
    """Yield the directory of this process's group, and those above it up to the mount point."""
    root, point = Path(mount[3]), Path(mount[4])
    if ".." in own or not Path(own).is_relative_to(root):
        return
    here = point / Path(own).relative_to(root)
    yield from (parent for parent in (here, *here.parents) if parent.is_relative_to(point) and parent.is_dir())
