"""A worker of which one thing is changed: ``python -m changed_worker DESCRIPTOR``, the change named by ``CHANGE``."""

import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import count

from evopolicygym.rollout import policy_monitor, worker
from evopolicygym.sandbox import cgroup, private_copy
from evopolicygym.sandbox.backends import bubblewrap, process

VARIABLE = "CHANGE_OF_THE_WORKER"


def without_filter() -> None:
    """Filter no system calls, as on a machine without libseccomp."""
    process.policy_filter = lambda: None  # type: ignore[assignment] # a cached function


def without_last_number() -> None:
    """Filter no system calls, on a kernel that lets no zygote choose process numbers."""
    without_filter()
    bubblewrap.LAST_NUMBER = "/no/such/file"


def without_control_groups() -> None:
    """Make no control groups, as an ordinary user."""
    cgroup._parent = lambda _: None  # type: ignore[assignment] # a cached function


def starved() -> None:
    """Grant a policy no time to wait for a processor."""
    policy_monitor.STARVED = 0


def jumping_clock() -> None:
    """Have the wall clock jump by an hour, forth and back, at every look."""
    really, looks = time.time, count()
    time.time = lambda: really() + (-1) ** next(looks) * 3600


def unconfinable() -> None:
    """Have no policy's process get as far as the policy, since a limit of it can't be set."""
    confinement = process.confinement
    process.confinement = lambda *given: replace(confinement(*given), limits={"RLIMIT_NONE": 0})


def without_room() -> None:
    """Have too little memory for a copy of what policies see."""
    private_copy.KEPT_FREE = 1 << 60


CHANGES: dict[str, Callable[[], None]] = {
    change.__name__: change
    for change in (
        without_filter,
        without_last_number,
        without_control_groups,
        starved,
        jumping_clock,
        unconfinable,
        without_room,
    )
}

if __name__ == "__main__":
    CHANGES[os.environ[VARIABLE]]()
    worker.main(int(sys.argv[1]))
