"""The processor time of processes that a simulator has started and that still run, such as a game's own engine."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

PROCESSES = Path("/proc")
USER, SYSTEM = 11, 12
"""Places in ``/proc/PID/stat`` behind the program's name, counted from 0."""


def children_seconds() -> float:
    """Return the seconds that this process's children have computed so far; 0 where the system doesn't say."""
    return sum(map(_seconds, _children()))


def _children() -> Iterator[str]:
    with suppress(OSError):
        for thread in (PROCESSES / "self" / "task").iterdir():
            yield from (thread / "children").read_text(encoding="ascii").split()


def _seconds(process: str) -> float:
    with suppress(OSError):
        fields = (PROCESSES / process / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return (int(fields[USER]) + int(fields[SYSTEM])) / os.sysconf("SC_CLK_TCK")
    return 0.0
