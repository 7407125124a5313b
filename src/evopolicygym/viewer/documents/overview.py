"""A run in short, from its ``run.json``: what lists of runs, the task's page and learning curves are made of.

The journal is only read where a held-out episode failed, which its success rate must not count. What a run's document
says is believed and shown as text; ``verify`` is what checks it.
"""

import math
from collections.abc import Mapping
from typing import Any

from pydantic import AwareDatetime, BaseModel, Field

from evopolicygym.analysis.published.score_tables import paper
from evopolicygym.analysis.run_json import AgentFields, EnvironmentFields, Name, decoded
from evopolicygym.core import regular_file
from evopolicygym.core.agent import entry_of
from evopolicygym.core.errors import RecordError
from evopolicygym.core.run import Stage
from evopolicygym.records.jsontext import dumps
from evopolicygym.records.reader import read_run
from evopolicygym.records.run_document import MOST_DOCUMENT, counted_success_rate, document_of
from evopolicygym.viewer.documents.reading import read_bytes, shown
from evopolicygym.viewer.documents.run_index import Place


class _Task(BaseModel):
    environment: EnvironmentFields
    films: int = 0


class _Budget(BaseModel):
    episodes: int
    spent: int


class _Timing(BaseModel):
    opened_at: AwareDatetime
    finished_at: AwareDatetime | None = None


class _Submission(BaseModel):
    status: Name
    n_episodes: int
    train_mean: float | None
    validation_mean: float | None


class _Outcome(BaseModel):
    status: Name | None = None
    closed: Name | None = None
    selected_submission: int | None = None
    score: float | None = None
    standard_error: float | None = None
    held_out_returns: list[float] | None = None
    success_rate: float | None = None
    held_out_failures: int = 0


class _Document(BaseModel):
    run_id: Name
    stage: Stage
    task: _Task
    agent: AgentFields
    seed: int
    experiment: Name
    split: Name
    commitment: Name
    budget: _Budget
    timing: _Timing
    submissions: list[_Submission] = Field(default_factory=list)
    outcome: _Outcome
    usage: dict[str, float | None] | None = None
    tool_usage: dict[str, float | None] | None = None


def run_text(place: Place) -> str | bytes:
    """Return a run's document as text: as it is written where the run is finished, else made of its journal."""
    written = read_bytes(place.paths.document, MOST_DOCUMENT)
    if written is not None and b'"finished"' in written[:400]:
        return written
    if regular_file.is_there(place.paths.journal):
        return dumps(document_of(read_run(place.root)))
    if written is None:
        raise RecordError("There is neither a run.json nor a journal.jsonl that can be read.")
    return written


def overview(place: Place, text: str | bytes) -> dict[str, Any]:
    """Return a run in short; raise ``RecordError`` where its document can't be read."""
    told = decoded(_Document, text)
    environment, outcome = told.task.environment, told.outcome
    return {
        "id": place.id,
        "run_id": told.run_id,
        "place": shown(place.shown),
        "task": environment.name,
        "family": environment.family,
        "kind": environment.kind.value,
        "entry": entry_of(
            told.agent.name, told.agent.model, told.agent.effort or "", told.agent.command, told.agent.label
        ),
        "seed": told.seed,
        "experiment": told.experiment,
        "split": told.split,
        "commitment": told.commitment,
        "stage": told.stage.value,
        "status": outcome.status,
        "closed": outcome.closed,
        "score": outcome.score,
        "standard_error": outcome.standard_error if len(outcome.held_out_returns or ()) > 1 else None,
        "success_rate": counted_success_rate(place.paths, outcome.success_rate, outcome.held_out_failures),
        "returns": outcome.held_out_returns or [],
        "selected": outcome.selected_submission,
        "budget": told.budget.episodes,
        "spent": told.budget.spent,
        "submissions": len(told.submissions),
        "curve": learning_curve(told.submissions),
        "films": told.task.films,
        "is_published": paper().has(environment.name, environment.game),
        "random": environment.random_anchor.mean if environment.random_anchor else None,
        "idle": environment.idle_anchor.mean if environment.idle_anchor else None,
        "opened_at": told.timing.opened_at.isoformat(),
        "finished_at": told.timing.finished_at.isoformat() if told.timing.finished_at else None,
        **usage_of(told.usage, told.tool_usage),
    }


def learning_curve(submissions: list[_Submission]) -> list[list[float]]:
    """Return episodes spent and the best validation mean by then, wherever it grows, and at the end."""
    points: list[list[float]] = []
    spent, best = 0, -math.inf
    for one in submissions:
        spent += one.n_episodes
        value = one.validation_mean
        if one.status == "ok" and value is not None and value > best:
            best = value
            points.append([spent, best])
    return [*points, [spent, best]] if points and points[-1][0] < spent else points


def usage_of(*usages: Mapping[str, float | None] | None) -> dict[str, float | None]:
    """Return tokens and cost, each by the first that tells it: the model's door, else the agent's own tool."""
    told = [usage for usage in usages if usage]
    tokens = next(
        (sum(usage.get(name) or 0 for name in ("input", "output")) for usage in told if usage.get("input") is not None),
        None,
    )
    return {"tokens": tokens, "cost": next((u["cost"] for u in told if u.get("cost") is not None), None)}
