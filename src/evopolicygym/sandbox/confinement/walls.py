"""Walls that may be missing, of a machine or of a backend, and what would bring them; a user may waive each by name."""

import ctypes
from enum import StrEnum

from evopolicygym.sandbox.confinement.seccomp import policy_filter

LANDLOCK_CREATE_RULESET, WHICH_VERSION = 444, 1


class Wall(StrEnum):
    """Part of isolation that not every machine, or not every backend, has."""

    LANDLOCK = "landlock"
    """The kernel hides files from a process that asked for it."""
    SECCOMP = "seccomp"
    """The kernel refuses system calls to a process that asked for it."""
    PROGRAM_SANDBOX = "program-sandbox"
    """An agent's program is kept in: no machine lacks that, but a backend may."""


def lacking(wall: Wall) -> str:
    """Return why this machine lacks a wall, and what would work; empty where it doesn't."""
    if wall is Wall.SECCOMP and policy_filter() is None:
        return "libseccomp is not installed: pip install pyseccomp, with the system's package libseccomp2, brings it"
    if wall is Wall.LANDLOCK and not landlock_version():
        return "this kernel has no Landlock, or is started without it: Linux has it from 5.13 on (lsm=landlock)"
    return ""


def landlock_version() -> int:
    """Return the version of Landlock that the kernel has; 0 where it has none."""
    return max(0, int(ctypes.CDLL(None).syscall(LANDLOCK_CREATE_RULESET, None, 0, WHICH_VERSION)))
