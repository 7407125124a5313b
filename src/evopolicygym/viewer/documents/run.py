"""The page of a run: all submissions over episodes spent, with their results and the model's usage."""

import json
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from evopolicygym.analysis.published.score_tables import paper
from evopolicygym.analysis.run_scores import scale_of, submission_history
from evopolicygym.analysis.run_tables import RunTables
from evopolicygym.analysis.source import Bundle, read_bundle
from evopolicygym.core.agent import MODEL_LOG
from evopolicygym.core.event import AgentEnded, AgentStarted
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import RunRecord
from evopolicygym.records.run_document import usage_before_submissions
from evopolicygym.viewer.documents.document import document
from evopolicygym.viewer.documents.overview import ViewedRun
from evopolicygym.viewer.documents.reading import below, read_bytes, shown, within

MOST_LOG = 16 << 20
"""Bytes of the log that are read."""
EPISODE = (
    "position", "case", "episode_return", "length", "terminated", "truncated", "success", "failure", "actions_clipped",
)  # fmt: skip
"""The columns of an episode's row that lists of episodes have."""


@dataclass(frozen=True, slots=True)
class ModelUse:
    """One request that the model answered."""

    time: str
    input_tokens: float
    """Cached ones included."""
    output_tokens: float
    cost_usd: float | None
    seconds: float


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """What several requests used."""

    requests: int
    input_tokens: float
    output_tokens: float
    cost_usd: float | None
    """None where no request's is known."""
    cost_is_lower_bound: bool


def model_uses(paths: RunPaths) -> tuple[ModelUse, ...]:
    """Return all requests in the order of their times; empty where there is no such log."""
    content = read_bytes(below(paths.root, paths.logs / MODEL_LOG), MOST_LOG)
    uses = []
    for line in (content or b"").splitlines():
        with suppress(ValueError, TypeError, RecursionError):
            entry = json.loads(line)
            if isinstance(entry, dict) and isinstance(entry.get("time"), str) and "input" in entry:
                tokens_in, tokens_out, seconds = (_number(entry.get(name)) for name in ("input", "output", "seconds"))
                cost = None if entry.get("cost") is None else _number(entry["cost"])
                uses.append(ModelUse(entry["time"], tokens_in, tokens_out, cost, seconds))
    return tuple(sorted(uses, key=_time))


def usage_of(requests: Sequence[ModelUse]) -> ModelUsage:
    """Return what requests used together."""
    costs = [request.cost_usd for request in requests if request.cost_usd is not None]
    return ModelUsage(
        len(requests),
        sum(request.input_tokens for request in requests),
        sum(request.output_tokens for request in requests),
        sum(costs) if costs else None,
        bool(costs) and len(costs) < len(requests),
    )


def _time(request: ModelUse) -> str:
    return request.time


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def run_bundle(run: ViewedRun, tables: RunTables) -> dict[str, Any]:
    """Return all that a run's page shows at once."""
    record, environment = tables.record, tables.checked.summary.task.environment
    scale = scale_of(environment)
    return {
        **document(tables.row),
        "id": run.directory.id,
        "directory": shown(run.directory.shown),
        **document(run, "ended"),
        "activity": None if run.is_finished else run.directory.activity(),
        **document(environment, "objective"),
        "random_anchor": document(environment.random_anchor),
        "published_best": scale.best if scale else None,
        "published_source": paper().source if scale else None,
        "candidates": len(record.state.candidates),
        "submission_rows": _submissions(tables),
        "agent_turns": _turns(record),
        "stops": document(tables.checked.summary.timing.stops),
    }


def bundle_of(record: RunRecord, checkpoint: str) -> Bundle | None:
    """Return a checkpoint's files; None where they aren't there."""
    directory = within(record.paths.root, record.paths.checkpoints.name, checkpoint)
    return read_bundle(directory, record.paths.root, record.ignored) if directory is not None else None


def _submissions(tables: RunTables) -> list[dict[str, Any]]:
    """Return the rows of all submissions, each with its episodes and the state of the run after it."""
    rows: list[dict[str, Any]] = []
    first_with: dict[str, int] = {}
    played = defaultdict(list)
    for episode in tables.episodes:
        played[episode.submission].append(document(episode, *EPISODE))
    history, used = submission_history(tables.record.state), usage_before_submissions(tables.record)
    for row, milestone, usage in zip(tables.submissions, history, used, strict=True):
        rows.append(
            document(row)
            | document(milestone, "spent", "best", "is_new_best")
            | {
                "episode_rows": played[row.submission],
                "same_as": first_with.get(row.checkpoint),
                "used": usage
                and {"tokens": usage.tokens, "cost_usd": usage.cost, "cost_is_lower_bound": usage.is_lower_bound},
            }
        )
        first_with.setdefault(row.checkpoint, row.submission)
    return rows


def _turns(record: RunRecord) -> list[dict[str, Any]]:
    """Return the agent's turns, of the one that goes on its start."""
    starts = {event.turn: event.time for event in record.events if isinstance(event, AgentStarted)}
    ends = {event.turn: event for event in record.events if isinstance(event, AgentEnded)}
    return [
        {
            "turn": turn,
            "started_at": start,
            "ended_at": ends[turn].time if turn in ends else None,
            "end": shown(ends[turn].end) if turn in ends else None,
            "message": shown(ends[turn].message) if turn in ends else "",
            "usage": dict(ends[turn].usage or ends[turn].tool_usage) if turn in ends else {},
        }
        for turn, start in starts.items()
    ]
