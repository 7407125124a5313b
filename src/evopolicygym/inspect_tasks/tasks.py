"""The Inspect tasks, one for each environment and each shipped suite, and their default solver.

Each sample is one run on one environment.
"""

import tomllib
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import PurePath

from inspect_ai import Task, task
from inspect_ai.agent import Agent, AgentContinue, AgentState, agent, react
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessageAssistant
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.tool import bash, text_editor
from inspect_ai.util import SandboxEnvironmentSpec

from evopolicygym.core.errors import UsageError
from evopolicygym.core.options import AUTO, DEFAULT_EXPERIMENT
from evopolicygym.core.task import TaskKind
from evopolicygym.inspect_tasks.sample_run import ENVIRONMENT, SPEC, RunSettings
from evopolicygym.inspect_tasks.sandbox import NAME
from evopolicygym.inspect_tasks.scoring import NORMALISED, run_sandbox, run_score
from evopolicygym.specs import catalog, pack_catalog
from evopolicygym.version import __version__

COMMAND_S = 300
"""Seconds that one command may take."""
MAX_ANSWERS_WITHOUT_TOOLS = 3
"""Answers in a row without a call of a tool, after which the agent is over."""
PROMPT = """\
You improve an executable policy by playing it, reading what came of it, and editing it. Commands run in /workspace,
in a sandbox without network. Nobody answers questions: decide by yourself, and work until the episode budget is
spent."""


@agent(name="react")
def policy_improver() -> Agent:
    """Return Inspect's ``react`` agent, which is over once the budget is spent or its model calls no tool any more."""
    return react(
        name="react",
        description="Improves a policy within its episode budget.",
        prompt=PROMPT,
        tools=[bash(timeout=COMMAND_S), text_editor(timeout=COMMAND_S)],
        submit=False,
        on_continue=continue_within_budget(),
    )


def continue_within_budget() -> AgentContinue:
    """Return what decides after each answer whether the agent goes on."""

    async def decide(state: AgentState) -> bool | str:
        run = run_sandbox().played
        if run.closed or run.hosted is None:
            return False
        if state.output.message.tool_calls:
            return True
        if _answers_without_tools(state) >= MAX_ANSWERS_WITHOUT_TOOLS:
            return False
        return f"{run.hosted.remaining} episodes are left. Go on with the tools until they are spent."

    return decide


def _answers_without_tools(state: AgentState) -> int:
    """Return how many of the last answers called no tool."""
    answers = [message for message in state.messages if isinstance(message, ChatMessageAssistant)]
    return next((place for place, answer in enumerate(reversed(answers)) if answer.tool_calls), len(answers))


VERSION = "1.0"
"""Raised whenever scores of the same agent may differ from those of the version before."""
INPUT = """\
Improve the policy for the environment {name!r}.

1. Read AGENTS.md: the rules of this workspace.
2. Run `./judge task` and `./judge info`: what the policy is to achieve, and the episode budget.
3. Improve system/policy.py. Play it with `./judge submit 0-3`, read what came of it in feedback/, improve it again.

Go on until the episode budget is spent. The best of your submissions is scored on cases that you never see."""


@solver
def skip_scored() -> Solver:
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
            dataset=MemoryDataset(
                [_sample(item) for item in filter(None, named)] or [*map(_sample, environments)], name
            ),
            setup=skip_scored(),
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
    found = [item for item in files("evopolicygym.runs.suites").iterdir() if item.name.endswith(".toml")]
    return {PurePath(item.name).stem: tomllib.loads(item.read_text(encoding="utf-8"))["environments"] for item in found}


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
