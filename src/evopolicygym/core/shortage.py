"""What a machine ran out of, as an exception shows it, with this process's limits and what raises them."""

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

from evopolicygym.core.errors import SandboxError

ENOUGH_DESCRIPTORS = 1024
"""The usual limit of a process; a sandbox of policies needs about half of it."""
ENOUGH_TASKS = 1024
NO_THREAD = "can't start new thread"
"""Message of Python's ``RuntimeError``."""


class Shortage(StrEnum):
    """What ran out."""

    DESCRIPTORS = "descriptors"
    THREADS = "threads"
    """Or processes, which Linux counts together."""


ERRORS = {errno.EMFILE: Shortage.DESCRIPTORS, errno.ENFILE: Shortage.DESCRIPTORS, errno.EAGAIN: Shortage.THREADS}


def shortage_of(error: BaseException) -> Shortage | None:
    """Return what a machine ran out of, if an error, or one that caused it, says so."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in ERRORS:
            return ERRORS[cause.errno]
        if isinstance(cause, OSError) and cause.errno is None and (shortage := shortage_in(str(cause))):  # the loader's
            return shortage
        if isinstance(cause, RuntimeError) and NO_THREAD in str(cause):
            return Shortage.THREADS
        cause = cause.__cause__
    return None


def shortage_in(text: str) -> Shortage | None:
    """Return what a machine ran out of, if the output of a program, in the language C, says so."""
    return next((shortage for number, shortage in ERRORS.items() if os.strerror(number) in text), None)


def describe_shortage(shortage: Shortage) -> str:
    """Return a sentence with the limits that this process has, and how to raise them."""
    if shortage is Shortage.DESCRIPTORS:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        limit = f"{soft}" if soft == hard else f"{soft}, at most {_shown(hard)}"
        return (
            f"Too few descriptors: a process may have {limit} open (ulimit -n); expected at least "
            f"{ENOUGH_DESCRIPTORS}. Raise the limit: ulimit -n {ENOUGH_DESCRIPTORS}; in a service LimitNOFILE=, in a "
            f"container --ulimit nofile={ENOUGH_DESCRIPTORS}."
        )
    limits = ", ".join(f"{name} {_shown(value)}" for name, value in task_limits().items()) or "none was found"
    return (
        f"No more processes or threads can be started here. Limits: {limits}; expected at least {ENOUGH_TASKS}. Raise "
        f"the limit (ulimit -u; in a service TasksMax=; in a container --pids-limit), or play with fewer --workers."
    )


def shortage_error(error: BaseException) -> SandboxError | None:
    """Return the error of a sandbox for an error that says that the machine ran out of something; else None."""
    if shortage := shortage_of(error):
        return SandboxError(f"{describe_shortage(shortage)} ({type(error).__name__}: {error})")
    return None


@contextmanager
def shortage_as_error() -> Iterator[None]:
    """Raise ``SandboxError`` for an error of the block that says that the machine ran out of something."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        if shortage := shortage_of(error):
            raise SandboxError(describe_shortage(shortage)) from error
        raise


def need_descriptors(count: int) -> None:
    """Raise this process's soft limit of descriptors if it is below ``count``; raise ``SandboxError`` if it can't be.

    Servers and libraries of this process wait for ever, or take it for the agent's failure, where none is left.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if count <= soft or soft == resource.RLIM_INFINITY:
        return
    if hard != resource.RLIM_INFINITY and hard < count:
        raise SandboxError(describe_shortage(Shortage.DESCRIPTORS))
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


def task_limits() -> dict[str, int]:
    """Return the limits of processes and threads that apply to this process, by the names of their settings.

    Of control groups that is the smallest above this process.
    """
    limits = {"ulimit -u": resource.getrlimit(resource.RLIMIT_NPROC)[0]}
    groups = [value for path in _control_groups() if (value := _read_number(path / "pids.max")) is not None]
    if groups:
        limits["pids.max of the control group"] = min(groups)
    if (value := _read_number(Path("/proc/sys/kernel/threads-max"))) is not None:
        limits["kernel.threads-max"] = value
    return {name: value for name, value in limits.items() if value != resource.RLIM_INFINITY}


def _control_groups() -> list[Path]:
    """Return the directories of this process's control groups that may count processes, with all above them."""
    directories: list[Path] = []
    try:
        for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
            number, controllers, path = line.split(":", 2)
            if number == "0":
                roots = [Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified")]
            elif "pids" in controllers.split(","):
                roots = [Path("/sys/fs/cgroup/pids")]
            else:
                continue
            for root in roots:
                own = root / path.lstrip("/")
                directories += [own, *(parent for parent in own.parents if parent.is_relative_to(root))]
    except (OSError, ValueError):
        return []
    return directories


def _read_number(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):  # ``max`` is no limit
        return None


def _shown(limit: int) -> str:
    return "unlimited" if limit == resource.RLIM_INFINITY else str(limit)
