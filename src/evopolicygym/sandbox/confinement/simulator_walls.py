"""Walls around a pack's simulator: it has no network, and can change nothing that a later run is played with.

They are for what a pack's code does by accident or in passing. It is not untrusted code: it plays with its user's
rights, and decides what it observes and pays. The sandbox of its policies is one inside these walls.
"""

import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from evopolicygym.core.errors import SandboxError
from evopolicygym.sandbox.confinement.bwrap import NAMESPACES, USER_NAMESPACE, bwrap

UNMOUNTED = ("--unshare-user", "--unshare-net", "--cap-drop", "CAP_SYS_ADMIN", "--dev-bind", "/", "/")
"""The machine as it is, but for its network, and without the right to change what is mounted."""
FINDING = "pack"
"""The name of the finding that says which walls a pack's simulator has."""
PATIENCE_S = 20.0


@dataclass(frozen=True, slots=True)
class SimulatorWalls:
    """How a simulator is walled in, if it is."""

    words: tuple[str, ...]
    """Before the command that starts it; none where there are no walls."""
    finding: str
    """In words, for the record of a run."""


def simulator_walls(read_only: Iterable[Path], hidden: Path, writes_below: Path) -> SimulatorWalls:
    """Return walls behind which directories are read-only and one seems empty, as far as this machine can make them.

    What holds the directory that is written to stays as it is.
    """
    kept = sorted({str(one.resolve()) for one in read_only if one.is_dir() and not _holds(one, writes_below)})
    emptied = str(hidden.resolve()) if hidden.is_dir() and not _holds(hidden, writes_below) else ""
    return _tried(tuple(kept), emptied)


def no_walls(reason: str) -> SimulatorWalls:
    """Return that there are none, and why."""
    return SimulatorWalls((), f"plays with its user's rights: {reason}")


def _holds(directory: Path, other: Path) -> bool:
    return other.resolve().is_relative_to(directory.resolve())


@cache
def _tried(read_only: tuple[str, ...], hidden: str) -> SimulatorWalls:
    """Try whether a policy's sandbox can be made within the walls; without that there are none."""
    shown = (word for place in read_only for word in ("--ro-bind", place, place))
    emptied = ("--tmpfs", hidden) if hidden else ()
    try:
        words = (bwrap(), *UNMOUNTED, *shown, *emptied, "--")
        inner = [bwrap(), *USER_NAMESPACE, *NAMESPACES, "--ro-bind", "/", "/", "--", "/bin/true"]
        tried = subprocess.run([*words, *inner], capture_output=True, check=False, timeout=PATIENCE_S, text=True)
    except (SandboxError, OSError, subprocess.TimeoutExpired) as error:
        return no_walls(str(error))
    if tried.returncode:
        return no_walls(f"no sandbox can be made in another here: {tried.stderr.strip()[:200]}")
    return SimulatorWalls(words, "no network; its own files and ours can't be written, and no secret be read")
