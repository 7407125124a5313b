"""Control groups, of version 2 or 1: the kernel counts processes and memory, where this user may make a group.

That takes a group of this user's whose children get the controllers: as root, or where a part of the tree is delegated,
as ``systemd-run --user --scope`` does. Where there is none, ``watch.py`` counts from outside.
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
groups = int(sys.argv[1])
for group in sys.argv[2:2 + groups]:
    open(group + "/cgroup.procs", "w").write(str(os.getpid()))
os.environ.pop("LC_CTYPE", None)
os.execve(sys.argv[2 + groups], sys.argv[3 + groups:], os.environ)
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

    directories: tuple[Path, ...]
    """One of version 2, or one for each controller of version 1."""

    def joined_by(self, program: str, words: Sequence[str]) -> list[str]:
        """Return the command line of a process that joins, then becomes a program with these words, its name first."""
        groups = [str(directory) for directory in self.directories]
        return [sys.executable, "-I", "-S", "-c", JOIN, str(len(groups)), *groups, program, *words]

    def remove(self, patience_s: float) -> None:
        """End what still runs in the group and remove it; raise ``SandboxError`` where something can't be ended."""
        for directory in self.directories:
            _remove(directory, monotonic() + patience_s)


def make(processes: int, memory_mb: int | None = None) -> ControlGroup | None:
    """Return a new group with these limits; None where this user can make none that a process can join."""
    controllers = ("pids",) if memory_mb is None else ("memory", "pids")
    parents = _parents(controllers)
    made = ControlGroup(tuple(parent / f"{PREFIX}-{os.getpid()}-{secrets.token_hex(4)}" for parent in parents))
    try:
        for directory in made.directories:
            directory.mkdir()
            _limit(directory, processes, None if memory_mb is None else memory_mb << 20)
            _sweep(directory.parent, directory.stat().st_ctime)
    except (OSError, ValueError):
        made.remove(0.0)
        return None
    return made if parents else None


def can_be_made() -> bool:
    """Return whether this user can make a group that counts processes."""
    return bool(_parents(("pids",)))


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


def _limit(directory: Path, processes: int, memory: int | None) -> None:
    """Write limits down, as far as the group's controllers have them; raise ``OSError`` where they don't hold."""
    texts = {"pids.max": str(processes)}
    if memory is not None:
        texts |= {"memory.max": str(memory), "memory.swap.max": "0", "memory.limit_in_bytes": str(memory)}
        texts |= {"memory.memsw.limit_in_bytes": str(memory)}
    present = {name: text for name, text in texts.items() if (directory / name).exists()}
    for name, text in present.items():
        (directory / name).write_text(text, encoding="utf-8")
    if not present:
        raise OSError(f"No limit can be set in {directory}.")


@cache
def _parents(controllers: tuple[str, ...]) -> tuple[Path, ...]:
    """Return the groups, one for all controllers or one for each, whose children this user can limit and join."""
    mounts, membership = _read()
    for parent in _unified(mounts, membership, set(controllers)):
        if _can_be_joined((parent,)):
            return (parent,)
    first = [next(_of_version_1(mounts, membership, one), None) for one in controllers]
    found = tuple(parent for parent in first if parent is not None)
    return found if len(found) == len(controllers) and _can_be_joined(found) else ()


def _candidates(controllers: tuple[str, ...]) -> set[Path]:
    """Return every group in which one of these controllers' may have been made."""
    mounts, membership = _read()
    of_version_1 = {parent for one in controllers for parent in _of_version_1(mounts, membership, one)}
    return of_version_1 | set(_unified(mounts, membership, set(controllers)))


def _read() -> tuple[list[list[str]], list[list[str]]]:
    """Return what is mounted, and the groups that this process is in, by their fields."""
    mounts = [line.split() for line in MOUNTS.read_text(encoding="utf-8").splitlines()]
    return mounts, [line.split(":", 2) for line in MEMBERSHIP.read_text(encoding="utf-8").splitlines()]


def _can_be_joined(parents: Sequence[Path]) -> bool:
    trial = ControlGroup(tuple(parent / f"{PREFIX}-{os.getpid()}-{secrets.token_hex(4)}" for parent in parents))
    try:
        for directory in trial.directories:
            directory.mkdir()
        return not subprocess.run(trial.joined_by("/bin/true", ["true"]), capture_output=True, check=False).returncode
    except OSError:
        return False
    finally:
        with suppress(SandboxError):
            trial.remove(1.0)


def _unified(mounts: list[list[str]], membership: list[list[str]], controllers: set[str]) -> Iterator[Path]:
    """Yield the groups of version 2, from this process's own upwards, whose children get the controllers."""
    for mount in mounts:
        own = next((path for number, _, path in membership if number == "0"), None)
        if mount[mount.index("-") + 1] != "cgroup2" or own is None:
            continue
        for directory in _upwards(mount, own):
            control = directory / "cgroup.subtree_control"
            given = set(control.read_text(encoding="utf-8").split()) if control.is_file() else set()
            if given >= controllers and os.access(directory, os.W_OK):
                yield directory


def _of_version_1(mounts: list[list[str]], membership: list[list[str]], controller: str) -> Iterator[Path]:
    """Yield the groups of one controller of version 1, from this process's own upwards, that this user can divide."""
    for mount in mounts:
        own = next((path for _, names, path in membership if controller in names.split(",")), None)
        kind, _, options = mount[mount.index("-") + 1 :][:3]
        if kind == "cgroup" and controller in options.split(",") and own is not None:
            yield from (directory for directory in _upwards(mount, own) if os.access(directory, os.W_OK))


def _upwards(mount: Sequence[str], own: str) -> Iterator[Path]:
    """Yield where this process's own group is mounted, and the groups above it up to the mount's root."""
    root, place = Path(mount[3]), Path(mount[4])
    if ".." in own or not Path(own).is_relative_to(root):
        return
    here = place / Path(own).relative_to(root)
    yield from (one for one in (here, *here.parents) if one.is_relative_to(place) and one.is_dir())
