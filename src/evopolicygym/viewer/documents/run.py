"""The page of a run: all submissions over episodes spent, with their results and the model's usage."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from evopolicygym.analysis.published.score_tables import paper
from evopolicygym.analysis.run_scores import Milestone, scale_of, submission_history
from evopolicygym.analysis.source import Bundle, read_bundle
from evopolicygym.core.agent import MODEL_LOG
from evopolicygym.core.cases import Split
from evopolicygym.core.event import AgentEnded, AgentStarted, RunStopped
from evopolicygym.core.rollout import Episode
from evopolicygym.core.run_summary import UsageSummary
from evopolicygym.core.score import Estimate, estimate
from evopolicygym.records.checked import CheckedRun
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import RunRecord
from evopolicygym.records.run_document import held_out_returns, usage_before_submissions
from evopolicygym.records.tables import run_row
from evopolicygym.viewer.documents.ending import ending
from evopolicygym.viewer.documents.overview import SUMMARY, RunPlace, columns_of, labels_of
from evopolicygym.viewer.documents.reading import below, read_bytes, shown, within

MOST_LOG = 16 << 20
"""Bytes of the log that are read."""
RUN_PAGE = SUMMARY | {
    "agent": "agent_kind",
    "model": "model",
    "isolation": "isolation",
    "protocol_version": "protocol_version",
    "opened_at": "opened_at",
    "finished_at": "finished_at",
    "validation_cases": "validation_cases",
    "held_out_cases": "held_out_cases",
    "first_reached": "first_reached_submission",
    "distinct_checkpoints": "distinct_checkpoints",
}
"""The columns of a run's row that the page has, by the names that it has them by."""


@dataclass(frozen=True, slots=True)
class ModelUse:
    """One request that the model answered."""

    time: str
    tokens: float
    """Input and output tokens."""
    cost: float | None
    seconds: float
    input: float = 0.0
    """Input tokens, cached ones included."""


def model_uses(paths: RunPaths) -> tuple[ModelUse, ...]:
    """Return all requests in the order of their times; empty where there is no such log."""
    content = read_bytes(below(paths.root, paths.logs / MODEL_LOG), MOST_LOG)
    found = []
    for line in (content or b"").splitlines():
        with suppress(ValueError, TypeError, RecursionError):
            entry = json.loads(line)
            if isinstance(entry, dict) and isinstance(entry.get("time"), str) and "input" in entry:
                tokens = _number(entry.get("input")) + _number(entry.get("output"))
                cost = entry.get("cost")
                found.append(
                    ModelUse(
                        entry["time"],
                        tokens,
                        None if cost is None else _number(cost),
                        _number(entry.get("seconds")),
                        _number(entry.get("input")),
                    )
                )
    return tuple(sorted(found, key=_time))


def _time(request: ModelUse) -> str:
    return request.time


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def run_bundle(place: RunPlace, checked: CheckedRun, record: RunRecord) -> dict[str, Any]:
    """Return all that a run's page shows at once."""
    state, selected = record.state, record.state.selected
    return {
        **_beginning(place, checked),
        "score": _score(state.held_out(), held_out_returns(state)) if selected else None,
        "candidates": len(state.candidates),
        "checkpoint": selected.checkpoint if selected else None,
        "submissions": _submissions(record),
        "turns": _turns(record),
        "stops": [{"at": e.time, "reason": e.reason.value, "message": shown(e.message)} for e in _stops(record)],
        "hidden": _hidden(record),
    }


def _beginning(place: RunPlace, checked: CheckedRun) -> dict[str, Any]:
    """Return what is known of a run from its summary."""
    summary, row = checked.summary, run_row(checked)
    environment, scale = summary.task.environment, scale_of(summary.task.environment)
    return {
        "id": place.id,
        "place": shown(place.shown),
        **columns_of(row, RUN_PAGE),
        **labels_of(row),
        "experiment_name": shown(row.experiment_name),
        "record": row.record.value,
        "unchecked": shown(row.unchecked or ""),
        "versions": {shown(name): shown(version) for name, version in summary.fingerprint.versions.items()},
        "ended": ending(summary),
        "activity": None if summary.is_finished else place.activity(),
        "task": {
            "name": shown(environment.name),
            "family": shown(environment.family),
            "kind": environment.kind.value,
            "objective": shown(environment.objective),
            "reward": shown(environment.reward),
            "max_steps": environment.max_steps or None,
            "random": environment.random_anchor.mean if environment.random_anchor else None,
            "idle": environment.idle_anchor.mean if environment.idle_anchor else None,
            "published": scale.best if scale else None,
            "published_source": paper().source if scale else None,
        },
    }


def _score(held_out: Estimate | None, returns: Sequence[float]) -> dict[str, Any] | None:
    if held_out is None:
        return None
    return {"mean": held_out.mean, "standard_error": held_out.standard_error, "returns": list(returns)}


def episode_line(episode: Episode | None) -> dict[str, Any] | None:
    """Return an episode in short; None where it hasn't been played."""
    if episode is None:
        return None
    return {
        "return": episode.episode_return,
        "length": episode.length or None,
        "terminated": episode.terminated if episode.terminated or episode.truncated else None,
        "truncated": episode.truncated if episode.terminated or episode.truncated else None,
        "success": episode.succeeded,
        "failure": episode.failure.reason.value if episode.failure else None,
        "clipped": episode.actions_clipped if episode.trajectory_sha256 else None,
        "components": dict(episode.reward_components),
    }


def bundle_of(record: RunRecord, checkpoint: str) -> Bundle | None:
    """Return a checkpoint's files; None where they aren't there."""
    place = within(record.paths.root, record.paths.checkpoints.name, checkpoint)
    return read_bundle(place, record.paths.root, record.ignored) if place is not None else None


def _submissions(record: RunRecord) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    first_with: dict[str, int] = {}
    for milestone, usage in zip(submission_history(record.state), usage_before_submissions(record), strict=True):
        charged = milestone.submission.charged
        found.append(
            {
                **_submission(record, milestone),
                "same_as": first_with.get(charged.checkpoint),
                "used": usage
                and {"tokens": usage.tokens, "cost": usage.cost, "cost_is_lower_bound": usage.is_lower_bound},
            }
        )
        first_with.setdefault(charged.checkpoint, milestone.submission.index)
    return found


def _used(usage: UsageSummary) -> dict[str, Any]:
    return {"tokens": usage.tokens, "cost": usage.cost, "cost_is_lower_bound": usage.is_lower_bound}


def _submission(record: RunRecord, milestone: Milestone) -> dict[str, Any]:
    one, validation = milestone.submission, milestone.validation
    train = estimate(one.returns) if one.returns else None
    return {
        "index": one.index,
        "status": one.status.value,
        "playing": one.published is None,
        "from": one.first_global_episode,
        "spent": milestone.spent,
        "n_episodes": len(one.episodes),
        "n_failed": sum(bool(episode and episode.failure) for episode in one.episodes),
        "episodes": [episode_line(episode) for episode in one.episodes],
        "cases": list(one.charged.env_instances),
        "train": train.mean if train else None,
        "validation": {"mean": validation.mean, "standard_error": validation.standard_error} if validation else None,
        "best": milestone.best,
        "new_best": milestone.is_new_best,
        "at": one.charged.time,
        "seconds": one.published.wall_time_s if one.published else None,
        "checkpoint": shown(one.charged.checkpoint[:64]),
        "selected": record.state.selected is not None and record.state.selected.submit_index == one.index,
        "error": shown(one.published.error.message) if one.published and one.published.error else None,
    }


def _turns(record: RunRecord) -> list[dict[str, Any]]:
    starts = {event.turn: event.time for event in record.events if isinstance(event, AgentStarted)}
    ends = {event.turn: event for event in record.events if isinstance(event, AgentEnded)}
    return [
        {
            "turn": turn,
            "started_at": start,
            "ended_at": ends[turn].time if turn in ends else None,
            "end": shown(ends[turn].end) if turn in ends else None,
            "message": shown(ends[turn].message) if turn in ends else "",
            "usage": dict(_usage(ends[turn])) if turn in ends else {},
        }
        for turn, start in starts.items()
    ]


def _usage(ended: AgentEnded) -> Mapping[str, float]:
    return ended.usage or ended.tool_usage


def _stops(record: RunRecord) -> list[RunStopped]:
    return [event for event in record.events if isinstance(event, RunStopped)]


def _hidden(record: RunRecord) -> dict[str, Any]:
    """Return the selected checkpoint's hidden episodes, and whether their steps are there to be looked at."""
    state = record.state
    if state.selected is None:
        return {}
    return {
        split.value: {
            "checkpoint": shown(state.selected.checkpoint),
            "episodes": [episode_line(episode) for episode in state.rollout(split, state.selected.checkpoint).episodes],
            "recorded": below(record.paths.root, record.paths.evaluation / split.value) is not None,
        }
        for split in (Split.VALIDATION, Split.HELD_OUT)
        if state.cases(split)
    }
