"""Control groups of version 2: the kernel counts processes and memory, where this user may make a group.

That takes a group of this user's whose children get the controllers: as root, or where a part of the tree is delegated,
as ``systemd-run --user --scope`` does. Where there is none, or only version 1, ``limits.Watch`` counts from outside.
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
"""Python itself may set the variable that is taken away again."""
RETRY_S = 0.005
PREFIX = "evopolicygym"
STRAY_S = 60.0
"""Seconds after which a group whose maker is gone is nobody's: the judge was killed."""
MOUNTS, MEMBERSHIP = Path("/proc/self/mountinfo"), Path("/proc/self/cgroup")


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """A group that was made here, and that a process can join."""

    directory: Path

    def joined_by(self, program: str, words: Sequence[str]) -> list[str]:
        """Return the command line of a process that joins, then becomes a program with these words, its name first."""
        return [sys.executable, "-I", "-S", "-c", JOIN, str(self.directory), program, *words]

    def remove(self, patience_s: float) -> None:
        """End what still runs in the group and remove it; raise ``SandboxError`` where something can't be ended."""
        _remove(self.directory, monotonic() + patience_s)


def make(processes: int, memory_mb: int | None = None) -> ControlGroup | None:
    """Return a new group with these limits; None where this user can make none that a process can join."""
    parent = _parent(("pids",) if memory_mb is None else ("memory", "pids"))
    if parent is None:
        return None
    made = ControlGroup(parent / f"{PREFIX}-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        made.directory.mkdir()
        _limit(made.directory, processes, memory_mb)
        _sweep(parent, made.directory.stat().st_ctime)
    except OSError:
        made.remove(0.0)
        return None
    return made


def can_be_made() -> bool:
    """Return whether this user can make a group that counts processes."""
    return _parent(("pids",)) is not None


def clear(makers: Iterable[int], patience_s: float) -> None:
    """Remove the groups that processes made which have ended; what isn't empty in time is left to a later run."""
    made = {f"{PREFIX}-{maker}" for maker in makers}
    deadline = monotonic() + patience_s
    for parent in _candidates(("pids",)):
        for directory in parent.glob(f"{PREFIX}-*-*"):
            if directory.name.rpartition("-")[0] in made:
                with suppress(SandboxError):
                    _remove(directory, deadline)


def _remove(directory: Path, deadline: float) -> None:
    while True:
        try:
            directory.rmdir()
        except FileNotFoundError:
            return
        except OSError as error:
            if monotonic() > deadline:
                raise SandboxError(f"A control group still holds processes: {directory}.") from error
            _end_all(directory)
            sleep(RETRY_S)
        else:
            return


def _end_all(directory: Path) -> None:
    with suppress(OSError):
        for process in (directory / "cgroup.procs").read_text(encoding="utf-8").split():
            with suppress(ProcessLookupError):
                os.kill(int(process), signal.SIGKILL)


def _sweep(parent: Path, now: float) -> None:
    """Remove empty groups whose maker was killed before it could; ``now`` is the file system's own time."""
    for directory in parent.glob(f"{PREFIX}-*-*"):
        maker = directory.name.split("-")[1]
        with suppress(OSError):
            if not Path("/proc", maker).exists() and now - directory.stat().st_ctime > STRAY_S:
                directory.rmdir()


def _limit(directory: Path, processes: int, memory_mb: int | None) -> None:
    """Write the limits of a group; raise ``OSError`` where its parent doesn't give it the controllers."""
    limits = {"pids.max": processes}
    if memory_mb is not None:
        limits["memory.max"] = memory_mb << 20
        if (directory / "memory.swap.max").exists():  # a kernel may count no swap
            limits["memory.swap.max"] = 0
    for name, amount in limits.items():
        (directory / name).write_text(str(amount), encoding="utf-8")


@cache
def _parent(controllers: tuple[str, ...]) -> Path | None:
    """Return the group whose children this user can limit and join; None where there is none."""
    return next(filter(_can_be_joined, _candidates(controllers)), None)


def _candidates(controllers: tuple[str, ...]) -> Iterator[Path]:
    """Yield the groups, from this process's own upwards, whose children get the controllers."""
    membership = [line.split(":", 2) for line in MEMBERSHIP.read_text(encoding="utf-8").splitlines()]
    own = next((path for number, _, path in membership if number == "0"), None)
    for line in MOUNTS.read_text(encoding="utf-8").splitlines():
        mount = line.split()
        if mount[mount.index("-") + 1] != "cgroup2" or own is None:
            continue
        for directory in _upwards(mount, own):
            control = directory / "cgroup.subtree_control"
            given = set(control.read_text(encoding="utf-8").split()) if control.is_file() else set()
            if given >= set(controllers) and os.access(directory, os.W_OK):
                yield directory


def _can_be_joined(parent: Path) -> bool:
    trial = ControlGroup(parent / f"{PREFIX}-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        trial.directory.mkdir()
        return not subprocess.run(trial.joined_by("/bin/true", ["true"]), capture_output=True, check=False).returncode
    except OSError:
        return False
    finally:
        with suppress(SandboxError):
            trial.remove(1.0)


def _upwards(mount: Sequence[str], own: str) -> Iterator[Path]:
    """Yield where this process's own group is mounted, and the groups above it up to the mount's root."""
    root, place = Path(mount[3]), Path(mount[4])
    if ".." in own or not Path(own).is_relative_to(root):
        return
    here = place / Path(own).relative_to(root)
    yield from (parent for parent in (here, *here.parents) if parent.is_relative_to(place) and parent.is_dir())
