"""A run in short, from its summary: what lists of runs, the task's page and learning curves are made of.

What a run's document says is believed and shown as text; ``verify`` is what checks it.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from evopolicygym.analysis.published.score_tables import paper
from evopolicygym.core.run_summary import RunSummary, SubmissionSummary
from evopolicygym.core.score import best_so_far
from evopolicygym.core.submission import SubmissionStatus
from evopolicygym.specs.game_identity import game_of
from evopolicygym.viewer.documents.reading import shown
from evopolicygym.viewer.documents.run_index import RunPlace


def overview(place: RunPlace, summary: RunSummary) -> dict[str, Any]:
    """Return a run in short."""
    environment, outcome = summary.task.environment, summary.outcome
    return {
        "id": place.id,
        "run_id": summary.run_id,
        "place": shown(place.shown),
        "task": environment.name,
        "family": environment.family,
        "kind": environment.kind.value,
        "entry": summary.entry,
        "seed": summary.seed,
        "experiment": summary.experiment,
        "split": summary.split.value,
        "commitment": summary.commitment,
        "stage": summary.stage.value,
        "status": outcome.status,
        "closed": outcome.closed,
        "score": outcome.score,
        "standard_error": summary.held_out.standard_error if summary.held_out else None,
        "success_rate": outcome.success_rate,
        "returns": list(outcome.held_out_returns or ()),
        "selected": outcome.selected_submission,
        "budget": summary.budget.episodes,
        "spent": summary.budget.spent,
        "submissions": len(summary.submissions),
        "curve": learning_curve(summary.submissions),
        "films": summary.task.films,
        "is_published": paper().has(environment.name, game_of(environment)),
        "environment_id": environment.id,
        "random": environment.random_anchor.mean if environment.random_anchor else None,
        "idle": environment.idle_anchor.mean if environment.idle_anchor else None,
        "opened_at": summary.timing.opened.isoformat(),
        "finished_at": summary.timing.finished.isoformat() if summary.timing.finished else None,
        "tokens": summary.tokens,
        "cost": summary.cost,
    }


def learning_curve(submissions: Sequence[SubmissionSummary]) -> list[list[float]]:
    """Return episodes spent and the best validation mean by then, wherever it grows, and at the end."""
    spent = list(accumulate(one.n_episodes for one in submissions))
    bests = best_so_far(one.validation_mean if one.status is SubmissionStatus.OK else None for one in submissions)
    points: list[list[float]] = []
    for at, best in zip(spent, bests, strict=True):
        if best is not None and not (points and points[-1][1] == best):
            points.append([at, best])
    return [*points, [spent[-1], points[-1][1]]] if points and points[-1][0] < spent[-1] else points
