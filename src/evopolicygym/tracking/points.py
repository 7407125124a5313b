"""What is logged of a run: its configuration, a point for each submission, and what is known once it is closed.

Validation and held-out results are never in what a run logs while its agent may still submit.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from evopolicygym.core.cases import Split
from evopolicygym.core.event import RunOpened
from evopolicygym.core.options import KNOBS, setting
from evopolicygym.core.run import RunState, SubmissionState
from evopolicygym.core.score import best_so_far, estimate
from evopolicygym.tracking.tracker import Configured


@dataclass(frozen=True, slots=True)
class TrackedPoint:
    """Some numbers at one step."""

    episodes_spent: int
    values: Mapping[str, float]
    """Finite ones alone."""


def config_of(opened: RunOpened) -> dict[str, Configured]:
    """Return a run's configuration by flat names; no command, no option of an agent and no seed of a case is in it."""
    task, agent, allowance = opened.task, opened.agent, opened.agent.allowance
    return {
        "run": opened.run_id,
        "task": task.environment.name,
        "environment_id": task.environment.id,
        "family": task.environment.family,
        "kind": task.environment.kind.value,
        "agent": agent.label or agent.name,
        "program_sha256": agent.program_sha256 or None,
        "model": agent.model or None,
        "effort": agent.effort or None,
        "seed": opened.seed,
        "budget": task.budget.episodes,
        "validation_cases": task.validation_cases,
        "held_out_cases": task.held_out_cases,
        "films": task.films,
        "policy_packages": ",".join(task.policy_packages) or None,
        **{one.name: setting(task, one) for one in KNOBS},
        "max_cost": allowance.cost,
        "max_tokens": allowance.tokens,
        "max_seconds": allowance.seconds,
        "max_turns": allowance.turns,
        "split_source": opened.split.value,
        "experiment_id": opened.experiment,
        "commitment": opened.commitment,
        "isolation": opened.isolation,
        "protocol_version": opened.protocol_version,
        "spec_sha256": opened.spec_sha256,
        **{f"versions.{name}": version for name, version in opened.versions.items()},
    }


def submission_point(state: RunState, submission: SubmissionState, *, is_now: bool) -> TrackedPoint:
    """Return the point of a submission whose feedback is published.

    ``is_now`` says whether it is the latest thing that happened, so that what the agent has used belongs to it too.
    """
    up_to_it = state.submissions[: submission.index + 1]
    best = best_so_far(estimate(one.returns).mean if one.returns else None for one in up_to_it)[-1]
    used = state.used
    return _point(
        _spent(state, submission),
        submission=submission.index,
        mean_return=estimate(submission.returns).mean if submission.returns else None,
        best_so_far=best,
        tokens=used.tokens if is_now and used.tokens else None,
        cost=used.cost if is_now and used.cost else None,
    )


def validation_points(state: RunState) -> list[TrackedPoint]:
    """Return a point for each candidate, at the step of its submission; none before a checkpoint was selected."""
    if not state.selected:
        return []
    played = [(one, state.rollout(Split.VALIDATION, one.charged.checkpoint)) for one in state.candidates]
    return [
        _point(_spent(state, one), validation_mean_return=estimate(rollout.returns).mean) for one, rollout in played
    ]


def held_out_point(state: RunState) -> TrackedPoint | None:
    """Return the score at the last step; None where the run has none."""
    if not state.finished or state.finished.score is None:
        return None
    finished = state.finished
    return _point(state.spent, held_out_score=finished.score, held_out_standard_error=finished.standard_error)


def summary_of(state: RunState) -> dict[str, str | float]:
    """Return what a finished run came to."""
    if not state.finished:
        return {"status": "stopped"}
    score, used = held_out_point(state), state.used
    last = _point(
        state.spent,
        episodes_spent=state.spent,
        selected_submission=state.selected.submit_index if state.selected else None,
        validation_mean_return=state.selected.validation_mean if state.selected else None,
        tokens=used.tokens or None,
        cost=used.cost or None,
    )
    return {"status": state.finished.status.value, **last.values, **(score.values if score else {})}


def _spent(state: RunState, submission: SubmissionState) -> int:
    return state.budget - submission.remaining_budget


def _point(episodes_spent: int, /, **values: float | None) -> TrackedPoint:
    known = {name: float(value) for name, value in values.items() if value is not None}
    return TrackedPoint(episodes_spent, {name: value for name, value in known.items() if math.isfinite(value)})
