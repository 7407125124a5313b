"""A control group (version 2) for an agent: the kernel counts its memory and processes, where this user may make one.

That takes a group of this user's whose children get the controllers memory and pids: as root, or where a part of the
tree is delegated, as ``systemd-run --user --scope`` does. Where there is none, ``watch.py`` counts from outside.
"""

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep

from evopolicygym.core.errors import SandboxError

CONTROLLERS = {"memory", "pids"}
JOIN = """
import os, sys
open(sys.argv[1], "w").write(str(os.getpid()))
os.execve(sys.argv[2], sys.argv[3:], {})
"""
RETRY_S = 0.02


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """A group that was made here, and that a process can join."""

    directory: Path

    def joined_by(self, program: str, words: Sequence[str]) -> list[str]:
        """Return the command line of a process that joins, then becomes a program with these words, its name first."""
        return [sys.executable, "-I", "-S", "-c", JOIN, str(self.directory / "cgroup.procs"), program, *words]

    def remove(self, patience_s: float) -> None:
        """Remove the group, which works only once nothing runs in it; raise ``SandboxError`` where something does."""
        deadline = monotonic() + patience_s
        while True:
            try:
                self.directory.rmdir()
            except FileNotFoundError:
                return
            except OSError as error:
                if monotonic() > deadline:
                    raise SandboxError(f"The agent's control group still holds processes: {self.directory}.") from error
                sleep(RETRY_S)
            else:
                return


def make(memory_mb: int, processes: int) -> ControlGroup | None:
    """Return a new group with these limits; None where this user can make none that a process can join."""
    limits = {"memory.max": memory_mb << 20, "memory.swap.max": 0, "pids.max": processes}
    for parent in _parents(Path("/proc/self/mountinfo"), Path("/proc/self/cgroup")):
        group = ControlGroup(parent / f"evopolicygym-{secrets.token_hex(4)}")
        try:
            group.directory.mkdir()
        except OSError:
            continue
        if _limited(group.directory, limits) and _can_be_joined(group):
            return group
        group.remove(0.0)
    return None


def _limited(directory: Path, limits: Mapping[str, int]) -> bool:
    """Write limits down; return whether they hold."""
    try:
        for name, amount in limits.items():
            if (directory / name).exists() or name != "memory.swap.max":  # there is none where nothing is swapped
                (directory / name).write_text(str(amount), encoding="utf-8")
        return int((directory / "pids.max").read_text(encoding="utf-8")) == limits["pids.max"]
    except (OSError, ValueError):
        return False


def _can_be_joined(group: ControlGroup) -> bool:
    return subprocess.run(group.joined_by("/bin/true", ["true"]), capture_output=True, check=False).returncode == 0


def _parents(mounts: Path, membership: Path) -> Iterator[Path]:
    """Yield the groups, from this process's own upwards, whose children this user can limit."""
    place = next((fields[4] for fields in _fields(mounts) if fields[fields.index("-") + 1] == "cgroup2"), None)
    lines = membership.read_text(encoding="utf-8").splitlines()
    own = next((line.removeprefix("0::/") for line in lines if line.startswith("0::/")), None)
    if place is None or own is None or ".." in own:
        return
    here = Path(place, own)
    for directory in (here, *here.parents):
        if not directory.is_relative_to(place):
            return
        control = directory / "cgroup.subtree_control"
        given = set(control.read_text(encoding="utf-8").split()) if control.is_file() else set()
        if given >= CONTROLLERS and os.access(directory, os.W_OK):
            yield directory


def _fields(mounts: Path) -> list[list[str]]:
    return [line.split() for line in mounts.read_text(encoding="utf-8").splitlines()]
