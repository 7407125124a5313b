"""The Inspect tasks, one for each environment and each shipped suite, with their default solver and their scorer.

Each sample is one run on one environment.
"""

import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path, PurePath
from typing import Any

from inspect_ai import Task, task
from inspect_ai.agent import Agent, AgentContinue, AgentState, agent, react
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessageAssistant
from inspect_ai.scorer import Metric, Score, Scorer, Target, grouped, mean, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.tool import bash, text_editor
from inspect_ai.util import SandboxEnvironmentSpec, sandbox

from evopolicygym.api.read.run import Run
from evopolicygym.core.errors import UsageError
from evopolicygym.core.options import AUTO, DEFAULT_EXPERIMENT
from evopolicygym.core.score import normalised
from evopolicygym.core.task import EnvironmentSpec, TaskKind
from evopolicygym.core.text import plus_minus
from evopolicygym.inspect_tasks.sample_run import ENVIRONMENT, SPEC, RunSettings
from evopolicygym.inspect_tasks.sandbox import NAME, RunSandbox
from evopolicygym.records.reader import read_run
from evopolicygym.specs import catalog, pack_catalog
from evopolicygym.version import __version__

COMMAND_S = 300
"""Limit of a command, in seconds."""
MAX_ANSWERS_WITHOUT_TOOLS = 3
"""Answers in a row without a tool call after which the agent ends."""
PROMPT = """\
You improve an executable policy by playing it, reading what came of it, and editing it. Commands run in /workspace,
in a sandbox without network. Nobody answers questions: decide by yourself, and work until the episode budget is
spent."""


@agent(name="react")
def policy_improver() -> Agent:
    """Return Inspect's ``react`` agent, which ends when the budget is spent or its model calls no more tools."""
    return react(
        name="react",
        description="Improves a policy within its episode budget.",
        prompt=PROMPT,
        tools=[bash(timeout=COMMAND_S), text_editor(timeout=COMMAND_S)],
        submit=False,
        on_continue=continue_within_budget(),
    )


def continue_within_budget() -> AgentContinue:
    """Return a function that decides after each answer whether the agent continues."""

    async def decide(state: AgentState) -> bool | str:
        run = run_sandbox().run
        if run.closed or run.hosted is None:
            return False
        if state.output.message.tool_calls:
            return True
        if _answers_without_tools(state) >= MAX_ANSWERS_WITHOUT_TOOLS:
            return False
        return f"{run.hosted.remaining} episodes are left. Go on with the tools until they are spent."

    return decide


def _answers_without_tools(state: AgentState) -> int:
    """Return the number of last answers without a tool call."""
    answers = [message for message in state.messages if isinstance(message, ChatMessageAssistant)]
    return next((index for index, answer in enumerate(reversed(answers)) if answer.tool_calls), len(answers))


NORMALISED, RETURN, SUCCESS_RATE = "normalised", "return", "success_rate"
UNKNOWN = math.nan
"""NaN, which Inspect excludes from its metrics."""


METRICS: dict[str, list[Metric]] = {
    NORMALISED: [mean(), stderr()],
    RETURN: [grouped(mean(), ENVIRONMENT, all=False)],
    SUCCESS_RATE: [mean(), stderr()],
}


@scorer(metrics=METRICS)
def run_score(values: Sequence[str] = tuple(METRICS)) -> Scorer:
    """Score the run: normalised, 0 for random play and 1 for the reference; the mean return; the share of successes.

    ``values`` are those that an environment of the task can have.
    """

    async def score(state: TaskState, target: Target) -> Score:  # noqa: ARG001 - the contract's
        own = run_sandbox()
        return score_of(await own.finish(), values, resumed=own.run.resumed)

    return score


def run_sandbox() -> RunSandbox:
    """Return the sandbox of the sample; raise ``UsageError`` if it isn't that of this package."""
    try:
        return sandbox().as_type(RunSandbox)
    except (TypeError, ProcessLookupError) as error:
        raise UsageError(
            f"Invalid sandbox: this task plays runs of EvoPolicyGym, which need the sandbox {NAME!r}. Leave --sandbox "
            f"out."
        ) from error


def score_of(run: Run, values: Sequence[str], *, resumed: bool = False) -> Score:
    """Return these values of a finished run; without a playable submission, those of random play."""
    state = read_run(run.path).state
    environment, held_out = state.opened.task.environment, run.score
    known = {
        NORMALISED: _normalised(held_out, environment),
        RETURN: UNKNOWN if held_out is None else held_out,
        SUCCESS_RATE: UNKNOWN if run.success_rate is None else run.success_rate,
    }
    text = "no submission could be played" if held_out is None else plus_minus(held_out, run.standard_error)
    return Score(
        value={name: known[name] for name in values},
        answer=_policy(run),
        explanation=f"{environment.name}: {text}; {state.spent} of {state.budget} episodes spent",
        metadata={**_metadata(run), "isolation": state.opened.isolation, "resumed": resumed, "spent": state.spent},
    )


def _normalised(held_out: float | None, environment: EnvironmentSpec) -> float:
    if environment.random_anchor is None or environment.reference_anchor is None:
        return UNKNOWN
    if held_out is None:
        return 0.0
    return normalised(held_out, environment.random_anchor.mean, environment.reference_anchor.mean)


def _policy(run: Run) -> str | None:
    """Return the source of the selected policy, if any."""
    chosen = run.selected_submission
    selected = next((submission for submission in run.submissions if submission["submission"] == chosen), None)
    file = run.path / "checkpoints" / str(selected["checkpoint"]) / "policy.py" if selected else Path()
    return file.read_text(encoding="utf-8", errors="replace") if file.is_file() else None


def _metadata(run: Run) -> Mapping[str, Any]:
    return {
        "run": str(run.path),
        "standard_error": run.standard_error,
        "selected_submission": run.selected_submission,
        "submissions": len(run.submissions),
    }


VERSION = "1.0"
"""Increased when scores of the same agent may differ from those of the previous version."""
INPUT = """\
Improve the policy for the environment {name!r}.

1. Read AGENTS.md: the rules of this workspace.
2. Run `./judge task` and `./judge info`: what the policy is to achieve, and the episode budget.
3. Improve system/policy.py. Play it with `./judge submit 0-3`, read what came of it in feedback/, improve it again.

Go on until the episode budget is spent. The best of your submissions is scored on cases that you never see."""


@solver
def skip_scored() -> Solver:
    """Return a solver that ends a sample at once if its run was scored in an earlier try."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:  # noqa: ARG001 - the contract's
        state.completed = run_sandbox().run.hosted is None
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
        chosen = [environment] if isinstance(environment, str) else list(environment)
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
        played = [*filter(None, chosen)] or environments
        values = _values(played)
        return Task(
            dataset=MemoryDataset([*map(_sample, played)], name),
            setup=skip_scored(),
            solver=policy_improver(),
            scorer=run_score(values),
            metrics={value: METRICS[value] for value in values},
            sandbox=SandboxEnvironmentSpec(NAME, settings),
            headline_metric=f"run_score.{values[0]}",
            version=VERSION,
            metadata={"evopolicygym": __version__},
        )

    return improve_policies


def _sample(environment: str) -> Sample:
    """Return the sample of an environment; raise ``UsageError`` for an unknown one."""
    about = _about(environment)
    metadata = {ENVIRONMENT: about.name, SPEC: environment, "family": about.family, "kind": str(about.kind)}
    return Sample(input=INPUT.format(name=about.name), id=about.name, metadata=metadata)


def _values(environments: Sequence[str]) -> list[str]:
    """Return the values that the score of one of some environments can have."""
    about = [*map(_about, environments)]
    known = {
        NORMALISED: any(item.has_anchors for item in about),
        RETURN: True,
        SUCCESS_RATE: any(item.knows_success for item in about),
    }
    return [name for name, has in known.items() if has]


@dataclass(frozen=True, slots=True)
class _About:
    """What is known of an environment without its simulator."""

    name: str
    family: str
    kind: TaskKind
    has_anchors: bool
    knows_success: bool


def _about(environment: str) -> _About:
    """Return what is known of a spec or of a task of a pack; raise ``UsageError`` for an unknown one."""
    if entry := pack_catalog.find(environment):
        pack, pack_task = entry
        anchors = pack_task.anchors
        measured = anchors is not None and anchors.reference is not None
        return _About(pack_task.name, pack.family, pack_task.kind, measured, pack_task.success is not None)
    spec = catalog.load(environment)
    measured = spec.random_anchor is not None and spec.reference_anchor is not None
    return _About(spec.name, spec.family, spec.kind, measured, spec.success is not None)


def _suites() -> dict[str, list[str]]:
    """Return the environments of each shipped suite by its name."""
    suites = [item for item in files("evopolicygym.runs.suites").iterdir() if item.name.endswith(".toml")]
    return {
        PurePath(item.name).stem: tomllib.loads(item.read_text(encoding="utf-8"))["environments"] for item in suites
    }


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
