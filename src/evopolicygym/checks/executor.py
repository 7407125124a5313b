"""The check of an executor: it must play as this machine does, bit for bit; what anyone runs on a cluster of theirs.

Checkpoints of several kinds are played on the same cases by ``local`` and by the other executor, then a simulator is
killed. How the two are compared is described in ``executor_parity/comparison.py``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from evopolicygym.checks.executor_parity import crash_isolation
from evopolicygym.checks.executor_parity.comparison import POLICIES, STEPS, compared
from evopolicygym.core.errors import UsageError
from evopolicygym.core.finding import Finding
from evopolicygym.core.task import EnvironmentSpec
from evopolicygym.environments.versions import versions
from evopolicygym.specs import catalog

ENVIRONMENTS = ("cartpole", "half_cheetah", "pendulum")
"""The first, and the first of the others whose packages are installed, are played."""


def check(name: str, address: str = "", environments: Sequence[str] = ENVIRONMENTS) -> Iterator[Finding]:
    """Check an executor on the cluster at an address; yield what is the same as on this machine, and what is not."""
    for environment in _installed(environments):
        yield from compared(name, address, environment, POLICIES)
    yield from compared(name, address, crash_isolation.spec(""), {"has its simulator killed": POLICIES["plays"]})


def _installed(asked: Sequence[str]) -> Iterator[EnvironmentSpec]:
    first, *others = (_short(catalog.load(one)) for one in asked)
    yield first
    for other in others:
        try:
            versions(other)
        except UsageError:
            continue
        yield other
        return


def _short(spec: EnvironmentSpec) -> EnvironmentSpec:
    return replace(spec, max_steps=min(spec.max_steps, STEPS))
