"""How an executor is named and made. The contract itself is ``core.rollout.Executor``.

An executor is one file of this room that defines ``make(config) -> Executor``, an entry point of the group
``evopolicygym.executors``, or ``package.module:Class``, called with the same config. Results depend on none of this, so
no record holds it: a run that was begun on one executor may be resumed on another.
"""

from dataclasses import dataclass
from pathlib import Path

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
    """What an executor is made for."""

    spec: EnvironmentSpec
    limits: Limits
    isolation: str
    scratch: Path
    """A directory that the executor makes and removes."""
    log: Path
    """The file that simulators and sandboxes print into."""
    workers: int | None = None
    """How many episodes play at once; None for one each core that there is."""
    address: str = ""
    """Where it plays, in the executor's own terms; empty for its default."""
    pinned: bool = True
    """Whether arithmetic is kept to what every processor has (``rollout/arithmetic.py``)."""
    policy_packages: tuple[str, ...] = ()
    """Distributions that policies may import besides those that all may."""
    interface: InterfaceDraw | None = None
    """What the interface is drawn from; None for the standard one."""
