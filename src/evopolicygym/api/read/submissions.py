"""The table of a run's submissions, as the live view and ``show`` have it."""

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from evopolicygym.core.cases import Split
from evopolicygym.core.run import RunState, SubmissionState
from evopolicygym.core.score import best_so_far, estimate
from evopolicygym.core.text import number

SHOWN = 12
"""Submissions in the live view, the latest."""


def submissions_table(state: RunState, shown: int = SHOWN) -> Table:
    """Return a run's latest submissions as a table."""
    table = Table(box=None, padding=(0, 1), header_style="dim")
    for heading in ("submission", "episodes", "mean return", "best so far", "validation"):
        table.add_column(heading, justify="right")
    table.add_column("status")
    bests = best_so_far(submission.train_mean for submission in state.submissions)
    for submission, best in list(zip(state.submissions, bests, strict=True))[-shown:]:
        table.add_row(*_cells(state, submission, best))
    return table


def _cells(state: RunState, submission: SubmissionState, best: float | None) -> tuple[RenderableType, ...]:
    mean = submission.train_mean
    validation = state.rollout(Split.VALIDATION, submission.charged.checkpoint).returns
    chosen = state.is_selected(submission)
    played = f"{len(submission.returns)}/{len(submission.episodes)}"
    return (
        str(submission.index),
        str(len(submission.episodes)) if submission.published else played,
        Text(number(mean), style="bold" if mean is not None and mean == best else ""),
        number(best),
        number(estimate(validation).mean if validation else None),
        Text(_status(submission, chosen=chosen), style="green" if chosen else ""),
    )


def _status(submission: SubmissionState, *, chosen: bool) -> str:
    if not submission.published:
        return "playing"
    status = "selected" if chosen else submission.status.value
    if not submission.failed:
        return status
    return f"{status}, {'all' if submission.failed == len(submission.episodes) else submission.failed} failed"
