"""The tasks: each sample is one run, on one environment. Each environment is a task, and so is each suite that ships.

How a sample is played is described in ``sandbox.py`` and ``solver.py``, how it is scored in ``scoring.py``.
"""

import tomllib
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import PurePath

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.util import SandboxEnvironmentSpec

from evopolicygym.core.errors import UsageError
from evopolicygym.core.options import AUTO, DEFAULT_EXPERIMENT
from evopolicygym.core.task import TaskKind
from evopolicygym.inspect_tasks.sandbox import NAME
from evopolicygym.inspect_tasks.scoring import NORMALISED, run_sandbox, run_score
from evopolicygym.inspect_tasks.settings import ENVIRONMENT, SPEC, RunSettings
from evopolicygym.inspect_tasks.solver import policy_improver
from evopolicygym.specs import catalog, pack_catalog
from evopolicygym.version import __version__

VERSION = "1.0"
"""Raised whenever scores of the same agent may differ from those of the version before."""
INPUT = """\
Improve the policy for the environment {name!r}.

1. Read AGENTS.md: the rules of this workspace.
2. Run `./judge task` and `./judge info`: what the policy is to achieve, and the episode budget.
3. Improve system/policy.py. Play it with `./judge submit 0-3`, read what came of it in feedback/, improve it again.

Go on until the episode budget is spent. The best of your submissions is scored on cases that you never see."""


@solver
def unless_scored() -> Solver:
    """Return what ends a sample at once whose run was scored in an earlier try."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:  # noqa: ARG001 - the contract's
        state.completed = run_sandbox().played.hosted is None
        return state

    return solve


def environments_task(name: str, environments: Sequence[str]) -> Callable[..., Task]:
    """Register a task that plays environments, by their names."""

    @task(name=name)
    def improve_policies(  # noqa: PLR0913, PLR0917 - options of the task
        environment: str | list[str] = "",
        budget: int = 128,
        validation: int = 16,
        held_out: int = 32,
        split: str = "private",
        experiment: str = DEFAULT_EXPERIMENT,
        seed: int = 0,
        runs: str = "runs",
        isolation: str = AUTO,
        workers: int = 2,
    ) -> Task:
        """Improve policies within a budget of episodes.

        Args:
            environment: The environments, instead of all: their names, or the paths of specs' ``.toml`` files.
            budget: Train episodes of each run.
            validation: Hidden cases by which the best submission of each run is selected.
            held_out: Hidden cases that score it.
            split: ``private``, ``public``, or a directory with cases.
            experiment: Runs of one experiment play the same cases.
            seed: Of the runs of the first epoch.
            runs: Below this directory records go.
            isolation: The isolation level; ``auto`` takes the strongest that works.
            workers: How many episodes of a run play at once.
        """
        named = [environment] if isinstance(environment, str) else list(environment)
        settings = RunSettings(
            budget=budget,
            validation=validation,
            held_out=held_out,
            split=split,
            experiment=experiment,
            seed=seed,
            runs=runs,
            isolation=isolation,
            workers=workers,
        )
        return Task(
            dataset=MemoryDataset([_sample(one) for one in filter(None, named)] or [*map(_sample, environments)], name),
            setup=unless_scored(),
            solver=policy_improver(),
            scorer=run_score(),
            sandbox=SandboxEnvironmentSpec(NAME, settings),
            headline_metric=f"run_score.{NORMALISED}",
            version=VERSION,
            metadata={"evopolicygym": __version__},
        )

    return improve_policies


def _sample(environment: str) -> Sample:
    """Return the sample of an environment; raise ``UsageError`` where there is none of that name."""
    name, family, kind = _identity(environment)
    metadata = {ENVIRONMENT: name, SPEC: environment, "family": family, "kind": str(kind)}
    return Sample(input=INPUT.format(name=name), id=name, metadata=metadata)


def _identity(environment: str) -> tuple[str, str, TaskKind]:
    """Return the name, the family and the kind of a spec or of a task of a pack."""
    if found := pack_catalog.find(environment):
        pack, of_pack = found
        return of_pack.name, pack.family, of_pack.kind
    spec = catalog.load(environment)
    return spec.name, spec.family, spec.kind


def _suites() -> dict[str, list[str]]:
    """Return the environments of each suite that ships, by the suite's name."""
    found = [one for one in files("evopolicygym.runs.suites").iterdir() if one.name.endswith(".toml")]
    return {PurePath(one.name).stem: tomllib.loads(one.read_text(encoding="utf-8"))["environments"] for one in found}


def _tasks() -> dict[str, Callable[..., Task]]:
    suites = _suites()
    names = catalog.names()
    if twice := suites.keys() & set(names):
        raise UsageError(f"A suite and an environment have the same name: {', '.join(sorted(twice))}.")
    return {
        **{name: environments_task(name, environments) for name, environments in suites.items()},
        **{name: environments_task(name, [name]) for name in names},
    }


TASKS = _tasks()
"""Every task by its name."""
