"""The registry and the configuration of executors, and claims of processors.

An executor implements ``core.rollout.Executor``. It is a file of ``rollout/executors/`` that defines
``make(config) -> Executor``, an entry point of the group ``evopolicygym.executors``, or ``package.module:Class``, which
takes the same config. Results don't depend on the executor, so no run records it: a run that was started on one
executor may be resumed on another.
"""

import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from evopolicygym.core.interface import InterfaceDraw
from evopolicygym.core.registry import Registry
from evopolicygym.core.task import EnvironmentSpec, Limits

EXECUTORS = Registry(
    kind="executor",
    package="evopolicygym.rollout.executors",
    group="evopolicygym.executors",
    attribute="make",
)


@dataclass(frozen=True, slots=True)
class ExecutorConfig:
    """The configuration of an executor."""

    spec: EnvironmentSpec
    limits: Limits
    isolation: str
    scratch: Path
    """A directory that the executor creates and removes."""
    log: Path
    """The file for output of simulators and sandboxes."""
    workers: int | None = None
    """How many episodes play at once; None for one on each core."""
    address: str = ""
    """Where it plays, such as a cluster's address; empty for the executor's default."""
    pinned: bool = True
    """Whether arithmetic is pinned (``rollout/arithmetic.py``)."""
    policy_packages: tuple[str, ...] = ()
    """Additional distributions that policies may import."""
    interface: InterfaceDraw | None = None
    """The key and level from which the interface is drawn; None for the standard interface."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim of a processor; ``core`` is None if all were taken.

    A claim is a name in the kernel's abstract socket namespace: it ends with its process and leaves no file. The worker
    pins itself to the claimed processor.
    """

    core: int | None
    _holder: socket.socket | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Release the processor."""
        if self._holder:
            self._holder.close()


def claim() -> Claim:
    """Claim the first processor that this process may use and no other program has claimed."""
    for core in sorted(os.sched_getaffinity(0)):
        holder = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        with suppress(OSError):
            holder.bind(f"\0evopolicygym-core-{os.getuid()}-{core}")
            return Claim(core, holder)
        holder.close()
    return Claim(None)
