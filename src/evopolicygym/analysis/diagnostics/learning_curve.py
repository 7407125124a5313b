"""The learning curve: the best validation mean so far against the episodes spent, its largest jump, its plateau.

The best of many noisy means rises by luck too, a run's curve is a single draw, and a plateau may be the end of the task
as well as of the agent. A plateau begins with the last gain beyond noise
(``analysis/lineage/lineage.py``).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from evopolicygym.analysis.diagnostic import Diagnostic, mean
from evopolicygym.analysis.lineage.lineage import gain
from evopolicygym.analysis.ranking.known_scale import KnownScores, known_scale
from evopolicygym.analysis.run_scores import Scale, SubmissionProgress, submission_history
from evopolicygym.analysis.tables.table import Cell, Table, table_of
from evopolicygym.core.cases import Split
from evopolicygym.core.run import RunState
from evopolicygym.records.reader import RunRecord
from evopolicygym.specs.identity import environment_identity
from evopolicygym.specs.measured_anchors import with_anchors

SHARES = (0.5, 0.8, 0.95)
"""Heights on the known scale whose time is reported."""
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Point:
    """The curve after one submission; it stays there until the next."""

    submit_index: int
    spent: int
    """Episodes."""
    validation_mean: float | None
    best: float | None
    """So far; None if there was no candidate yet."""


@dataclass(frozen=True, slots=True)
class LearningCurve:
    """One run's curve."""

    points: tuple[Point, ...]
    budget: int
    baseline: float | None
    """The start of the curve: the random anchor, or the first candidate if no anchor is known."""
    final: float | None
    """The end of the curve; None without a candidate."""
    final_height: float | None
    """The final's place on the known scale, clipped to [0, 1]; None if it is not known."""
    area: float | None
    """The area under the curve's height on the known scale, clipped to [0, 1]; None if that is not known."""
    episodes_to: Mapping[str, int | None]
    """Episodes spent until each height on the known scale; None if it was not reached, or the scale is not known."""
    largest_jump: float | None = None
    """The largest rise by one submission, as a share of the known scale; None if that is not known."""
    largest_jump_at: int | None = None
    """Episodes spent by then."""
    last_gain_at: int | None = None
    """Episodes spent at the last gain beyond noise, the first candidate included; None without a candidate."""
    plateau: int | None = None
    """Episodes spent since."""


def measure(record: RunRecord) -> LearningCurve:
    """Return a run's curve."""
    state = record.state
    history = submission_history(state)
    points = tuple(
        Point(
            progress.submission.index,
            progress.spent,
            progress.validation.mean if progress.validation else None,
            progress.best,
        )
        for progress in history
    )
    bests = [point.best for point in points if point.best is not None]
    environment = with_anchors(state.opened.task.environment)
    anchor, final = environment.random_anchor, bests[-1] if bests else None
    baseline = anchor.mean if anchor else (bests[0] if bests else None)
    known = known_scale(environment.name, environment_identity(environment), KnownScores.of(environment))
    scale = Scale(known.low, known.best) if known else None
    jump, jump_at = _largest_jump(points, scale)
    last_gain_at = _last_gain_at(state, history)
    return LearningCurve(
        points=points,
        budget=state.budget,
        baseline=baseline,
        final=final,
        final_height=scale.value(final) if scale and final is not None else None,
        area=_area(points, state.budget, scale) if scale and final is not None else None,
        episodes_to={f"{part:.0%}": _episodes_to_reach(points, scale, part) for part in SHARES},
        largest_jump=jump,
        largest_jump_at=jump_at,
        last_gain_at=last_gain_at,
        plateau=None if last_gain_at is None else state.spent - last_gain_at,
    )


def _largest_jump(points: Sequence[Point], scale: Scale | None) -> tuple[float | None, int | None]:
    """Return the largest rise by one submission, as a share of the scale, and when it was."""
    heights = [(point.best, point.spent) for point in points if point.best is not None]
    if scale is None or not heights:
        return None, None
    ends = [(scale.random, 0), *heights]
    rises = [(later - max(before, scale.random), spent) for (before, _), (later, spent) in pairwise(ends)]
    rise, spent = max(rises, key=lambda jump: jump[0])
    return max(0.0, rise) / (scale.best - scale.random), spent


def _last_gain_at(state: RunState, history: Sequence[SubmissionProgress]) -> int | None:
    """Return the episodes spent at the last submission that was better, beyond noise, than the last such one."""
    best: Sequence[float] | None = None
    at: int | None = None
    for progress in history:
        if progress.validation is None or not math.isfinite(progress.validation.mean):
            continue
        returns = state.rollout(Split.VALIDATION, progress.submission.charged.checkpoint).returns
        better = gain(best, returns) if best is not None else None
        if best is None or (better is not None and better.is_real):
            best, at = returns, progress.spent
    return at


def _area(points: Sequence[Point], budget: int, scale: Scale) -> float:
    """Return the mean height over the budget of the curve, which is 0 until the first candidate."""
    ends = [*(point.spent for point in points[1:]), budget]
    heights = (0.0 if point.best is None else scale.value(point.best) for point in points)
    widths = (end - point.spent for point, end in zip(points, ends, strict=True))
    return math.fsum(height * width for height, width in zip(heights, widths, strict=True)) / budget


def _episodes_to_reach(points: Sequence[Point], scale: Scale | None, part: float) -> int | None:
    if scale is None:
        return None
    return next(
        (point.spent for point in points if point.best is not None and scale.value(point.best) >= part - ROUNDING), None
    )


def table(curve: LearningCurve) -> Table:
    """Return the curve, point by point."""
    rows = tuple((point.submit_index, point.spent, point.validation_mean, point.best) for point in curve.points)
    return table_of("learning_curve", ("submission", "spent", "validation", "best so far"), rows)


def summary(curves: Sequence[LearningCurve]) -> Mapping[str, Cell]:
    """Return means over runs; episodes to a height are averaged over the runs that reached it."""
    return {
        "final": mean(curve.final for curve in curves),
        "final height": mean(curve.final_height for curve in curves),
        "area": mean(curve.area for curve in curves),
        **{f"episodes to {part:.0%}": mean(curve.episodes_to[f"{part:.0%}"] for curve in curves) for part in SHARES},
        "largest jump": mean(curve.largest_jump for curve in curves),
        "plateau": mean(curve.plateau for curve in curves),
    }


DIAGNOSTIC = Diagnostic(measure, table, summary, in_returns=frozenset({"final"}))
