"""The scorer: it closes a sample's run and scores the submission that was selected."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from inspect_ai.scorer import Score, Scorer, Target, grouped, mean, scorer, stderr
from inspect_ai.solver import TaskState
from inspect_ai.util import sandbox

from evopolicygym.api.run import Run
from evopolicygym.core.errors import UsageError
from evopolicygym.core.score import normalised
from evopolicygym.core.task import EnvironmentSpec
from evopolicygym.core.text import plus_minus
from evopolicygym.inspect_tasks.sample_run import ENVIRONMENT
from evopolicygym.inspect_tasks.sandbox import NAME, RunSandbox
from evopolicygym.records.reader import read_run

NORMALISED, RETURN, SUCCESS_RATE = "normalised", "return", "success_rate"
UNKNOWN = math.nan
"""NaN, which Inspect excludes from its metrics."""


@scorer(
    metrics={
        NORMALISED: [mean(), stderr()],
        RETURN: [grouped(mean(), ENVIRONMENT, all=False)],
        SUCCESS_RATE: [mean(), stderr()],
    }
)
def run_score() -> Scorer:
    """Score the run: normalised, 0 for random play and 1 for the reference; the mean return; the share of successes."""

    async def score(state: TaskState, target: Target) -> Score:  # noqa: ARG001 - the contract's
        place = run_sandbox()
        run = await place.finish()
        return score_of(run, resumed=place.played.resumed)

    return score


def run_sandbox() -> RunSandbox:
    """Return the sandbox of the sample; raise ``UsageError`` where it is another one than ours."""
    try:
        return sandbox().as_type(RunSandbox)
    except (TypeError, ProcessLookupError) as error:
        raise UsageError(
            f"This task plays runs of EvoPolicyGym, which need the sandbox {NAME!r}; another one was given. Leave "
            f"--sandbox out."
        ) from error


def score_of(run: Run, *, resumed: bool = False) -> Score:
    """Return what a finished run is worth; without a submission that could be played, it is worth random play."""
    state = read_run(run.path).state
    environment, held_out = state.opened.task.environment, run.score
    values = {
        NORMALISED: _normalised(held_out, environment),
        RETURN: UNKNOWN if held_out is None else held_out,
        SUCCESS_RATE: UNKNOWN if run.success_rate is None else run.success_rate,
    }
    shown = "no submission could be played" if held_out is None else plus_minus(held_out, run.standard_error)
    return Score(
        value=values,
        answer=_policy(run),
        explanation=f"{environment.name}: {shown}; {state.spent} of {state.budget} episodes spent",
        metadata={**_metadata(run), "isolation": state.opened.isolation, "resumed": resumed, "spent": state.spent},
    )


def _normalised(held_out: float | None, environment: EnvironmentSpec) -> float:
    if environment.random_anchor is None or environment.reference_anchor is None:
        return UNKNOWN
    if held_out is None:
        return 0.0
    return normalised(held_out, environment.random_anchor.mean, environment.reference_anchor.mean)


def _policy(run: Run) -> str | None:
    """Return the policy that was selected, as its file has it; None where none was."""
    selected = next((submission for submission in run.submissions if submission["selected"]), None)
    file = run.path / "checkpoints" / str(selected["checkpoint"]) / "policy.py" if selected else Path()
    return file.read_text(encoding="utf-8", errors="replace") if file.is_file() else None


def _metadata(run: Run) -> Mapping[str, Any]:
    return {
        "run": str(run.path),
        "standard_error": run.standard_error,
        "selected_submission": run.selected_submission,
        "submissions": len(run.submissions),
    }
