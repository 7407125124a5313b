"""Walls that a level may promise and a machine may lack, and what would bring them."""

import ctypes
from enum import StrEnum

from evopolicygym.sandbox.confinement.seccomp import policy_filter

LANDLOCK_CREATE_RULESET, WHICH_VERSION = 444, 1


class Wall(StrEnum):
    """Part of what a level promises, which not every machine has."""

    LANDLOCK = "landlock"
    """The kernel hides files from a process that asked for it."""
    SECCOMP = "seccomp"
    """The kernel refuses system calls to a process that asked for it."""


def lacking(wall: Wall) -> str:
    """Return why a wall can't be had here, and what would work; empty where it can."""
    if wall is Wall.SECCOMP and policy_filter() is None:
        return "libseccomp is not installed: pip install pyseccomp, with the system's package libseccomp2, brings it"
    if wall is Wall.LANDLOCK and not landlock_version():
        return "this kernel has no Landlock, or is started without it: Linux has it from 5.13 on (lsm=landlock)"
    return ""


def landlock_version() -> int:
    """Return the version of Landlock that the kernel has; 0 where it has none."""
    return max(0, int(ctypes.CDLL(None).syscall(LANDLOCK_CREATE_RULESET, None, 0, WHICH_VERSION)))
