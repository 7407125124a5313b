"""The packages that a run's policies may import besides those that all may: refused, or tried before there is a record.

Which they are, and what they bring, is found in ``sandbox/packages.py``.
"""

import tempfile
from pathlib import Path

from evopolicygym.core.errors import RecordError, UsageError
from evopolicygym.core.event import RunOpened
from evopolicygym.core.rollout import Executor
from evopolicygym.core.task import PolicyContext, Task
from evopolicygym.environments.simulator_code import simulators_of
from evopolicygym.rollout.checkpoint import capture
from evopolicygym.sandbox.packages import installed_version, modules_of, refuse_simulators
from evopolicygym.sandbox.simulators import hidden_modules

TRIAL = """\
from importlib import import_module

errors = []
for name in {modules}:
    try:
        import_module(name)
    except Exception as error:
        errors.append(f"{{name}}: {{type(error).__name__}}: {{error}}")
if len(errors) == len({modules}):
    raise ImportError("; ".join(errors))


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        pass
"""
"""A policy that can be loaded where any module of a distribution can be imported; some bring optional ones."""


def refuse_packages(task: Task) -> None:
    """Raise ``UsageError`` where policies may not import what a task names, or it isn't installed here."""
    spec = task.environment
    refuse_simulators(task.policy_packages, ("gymnasium", *spec.packages), hidden_modules(simulators_of(spec)))
    for name in task.policy_packages:
        modules_of(name)


def try_packages(task: Task, executor: Executor) -> None:
    """Have a policy import all that a task names; raise ``UsageError`` where the sandbox doesn't let it."""
    grounds = executor.grounds
    schemas = grounds.observation_schema, grounds.action_schema
    context = PolicyContext(task.environment.name, 0, 1, 0, task.environment.max_steps, *schemas)
    for name in task.policy_packages:
        with tempfile.TemporaryDirectory(prefix="evopolicygym-packages-") as place:
            system = Path(place, "system")
            system.mkdir()
            (system / "policy.py").write_text(TRIAL.format(modules=modules_of(name)), encoding="utf-8")
            checkpoint = capture(system, Path(place, "checkpoints"), task.limits)
            error = executor.load(Path(place, "checkpoints", checkpoint), context)
        if error:
            raise UsageError(
                f"Policies were to import {name}, which can't be imported in their sandbox (isolation "
                f"{grounds.isolation}): {error.status}: {error.message}. A policy may ask no more of the system than "
                f"docs/reference/security.md lists, and has {task.limits.memory_mb} MiB; leave it out."
            )


def refuse_other_packages(opened: RunOpened) -> None:
    """Raise ``RecordError`` where what a run's policies may import is missing here, or of another version."""
    for name in opened.task.policy_packages:
        then, here = opened.versions.get(name, "?"), installed_version(name)
        if here != then:
            found = f"here is {here}" if here else "it is not installed here"
            raise RecordError(
                f"The run's policies may import {name} {then}, and {found}: what they play would not be the same. "
                f"Install {name}=={then} to go on or to play it again."
            )
