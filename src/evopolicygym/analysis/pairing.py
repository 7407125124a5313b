"""Two entries side by side: paired by task, and by case where both were played on the same.

The standings of many entries are told in ``leaderboard.py``.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evopolicygym.analysis.bootstrap import (
    Floats,
    Interval,
    Resampler,
    Sample,
    joint_freedom,
    reach_of,
    stretched,
)
from evopolicygym.analysis.leaderboard import UNIT, Score
from evopolicygym.analysis.published import AGENT
from evopolicygym.analysis.score_table import Cell, Entry, ScoreTable
from evopolicygym.core.errors import UsageError
from evopolicygym.core.score import normalised


@dataclass(frozen=True, slots=True)
class CaseDifference:
    """A held-out case on which two entries differ."""

    case: int
    difference: float


@dataclass(frozen=True, slots=True)
class TaskDifference:
    """How two entries differ on one task; positive where the first is better."""

    task: str
    first: float
    second: float
    difference: float
    interval: Interval | None
    """None where either has only a published mean."""
    paired: bool
    """Whether both were played on the same cases."""
    improvement: float
    """Share of pairs of repeats in which the first is better, ties half."""
    normalised: float | None
    """The difference of normalised scores."""
    most: CaseDifference | None
    """The case on which they differ most; None where they weren't played on the same."""


@dataclass(frozen=True, slots=True)
class Pairing:
    """How two entries differ."""

    first: Entry
    second: Entry
    tasks: tuple[TaskDifference, ...]
    """Those that both have; first those on which the normalised scores differ most."""
    improvement: Score
    """Probability that the first improves on the second, over tasks (Agarwal et al. 2021)."""
    normalised: Score | None
    """Mean difference of normalised scores."""

    @property
    def told_apart(self) -> tuple[int, int]:
        """On how many tasks the difference's interval lies above nothing, and below."""
        known = [one.interval for one in self.tasks if one.interval]
        return sum(one.low > 0 for one in known), sum(one.high < 0 for one in known)


def pairing(table: ScoreTable, first: str, second: str, resampler: Resampler | None = None) -> Pairing:
    """Return how two entries of a table differ; raise ``UsageError`` where they have no task in common.

    Scores are normalised by the best agent of the whole table.
    """
    one, other = table.entry(first), table.entry(second)
    names = [task.name for task in table.tasks if task.name in one.cells and task.name in other.cells]
    if not names:
        raise UsageError(
            f"{first!r} and {second!r} have no task in common: {', '.join(one.cells)} against {', '.join(other.cells)}."
        )
    resampler = resampler or Resampler()
    scales = {name: _scale(table, name) for name in names}
    over = [_improvement_over(one.cells[name], other.cells[name], resampler) for name in names]
    tasks = [_difference(name, one.cells[name], other.cells[name], scales[name]) for name in names]
    improvements = [task.improvement for task in tasks]
    if _uncertain(one, other, names):
        freedoms = [_freedom(one.cells[name], other.cells[name]) for name in names]
        improvement = _score(improvements, over, freedoms, UNIT)
    else:
        improvement = Score(float(np.mean(improvements)), None)
    return Pairing(
        one, other, tuple(sorted(tasks, key=_apart, reverse=True)), improvement,
        _normalised(table, one, other, names, resampler),
    )  # fmt: skip


def _apart(task: TaskDifference) -> tuple[float, float]:
    size = abs(task.difference) if math.isfinite(task.difference) else math.inf
    return (abs(task.normalised) if task.normalised is not None else 0.0), size


def _difference(name: str, one: Cell, other: Cell, scale: tuple[float, float] | None) -> TaskDifference:
    interval, paired, most = None, False, None
    if one.sample and other.sample:
        both = _joined(one.sample, other.sample)
        paired = both is not None
        reach = _reach(one.sample, other.sample, both)
        interval = Interval(one.mean - other.mean - reach, one.mean - other.mean + reach)
        if both is not None:
            apart = both[0].mean(axis=0) - both[1].mean(axis=0)
            at = int(np.argmax(np.abs(apart)))
            most = CaseDifference(at, float(apart[at]))
    return TaskDifference(
        name, one.mean, other.mean, one.mean - other.mean, interval, paired,
        improvement=_improvement(_means(one), _means(other)),
        normalised=_norm_difference(one, other, scale) if scale else None, most=most,
    )  # fmt: skip


def _joined(one: Sample, other: Sample) -> tuple[Floats, Floats] | None:
    """Return both tables of returns where they are on the same cases."""
    if len(one.blocks) != 1 or len(other.blocks) != 1 or one.blocks[0].cases != other.blocks[0].cases:
        return None
    return one.blocks[0].returns, other.blocks[0].returns


def _reach(one: Sample, other: Sample, both: tuple[Floats, Floats] | None) -> float:
    """Return how far the interval of two means' difference reaches; cases that both were played on cancel out."""
    variance = one.standard_error**2 + other.standard_error**2
    cases = min(block.returns.shape[1] for sample in (one, other) for block in sample.blocks)
    if both is not None and cases > 1:
        variance -= 2 * float(np.cov(both[0].mean(axis=0), both[1].mean(axis=0))[0, 1]) / cases
    of_runs = [one.of_runs, other.of_runs]
    of_cases = max(0.0, variance - sum(part for part, _ in of_runs))
    return reach_of([of_cases, *(part for part, _ in of_runs)], [cases - 1, *(freedom for _, freedom in of_runs)])


def _means(cell: Cell) -> Floats:
    return cell.sample.runs if cell.sample else np.array([cell.mean])


def _improvement(one: Floats, other: Floats) -> float:
    """Return the share of pairs in which the first is better, ties half."""
    better, same = one[:, None] > other[None, :], one[:, None] == other[None, :]
    return float((better + same / 2).mean())


def _improvement_over(one: Cell, other: Cell, resampler: Resampler) -> Floats:
    """Return the probability of improvement on one task, by replicate."""
    mine, theirs = _drawn(one, resampler), _drawn(other, resampler)
    better, same = mine[:, :, None] > theirs[:, None, :], mine[:, :, None] == theirs[:, None, :]
    return np.asarray((better + same / 2).mean(axis=(1, 2)))


def _drawn(cell: Cell, resampler: Resampler) -> Floats:
    """Return the means of drawn runs over drawn cases: replicates by runs."""
    means = _means(cell)
    if cell.sample is None:
        return np.broadcast_to(means, (resampler.replicates, len(means)))
    return np.asarray(means[resampler.runs(len(means))] + resampler.of_cases(cell.sample)[:, None])


def _score(
    values: Sequence[float], over: Sequence[Floats], freedoms: Sequence[float], bounds: tuple[float, float]
) -> Score:
    """Return the mean over tasks, with the interval that its replicates give."""
    freedom = joint_freedom([float(each.var()) for each in over], freedoms)
    value = float(np.mean(values))
    return Score(value, stretched(value, np.mean(over, axis=0), freedom, bounds))


def _freedom(one: Cell, other: Cell) -> float:
    samples = [cell.sample for cell in (one, other) if cell.sample]
    return joint_freedom([sample.standard_error**2 for sample in samples], [sample.freedom for sample in samples])


def _normalised(
    table: ScoreTable, one: Entry, other: Entry, names: Sequence[str], resampler: Resampler
) -> Score | None:
    """Return the mean difference of normalised scores; scales are taken as they are, not drawn."""
    known = {name: scale for name in names if (scale := _scale(table, name)) is not None}
    if not known:
        return None
    values, over = [], []
    for name, (low, best) in known.items():
        mine, theirs = one.cells[name], other.cells[name]
        values.append(_norm_difference(mine, theirs, (low, best)))
        drawn = [np.clip((_replicates(cell, resampler) - low) / (best - low), 0, 1) for cell in (mine, theirs)]
        over.append(np.nan_to_num(drawn[0]) - np.nan_to_num(drawn[1]))
    value = float(np.mean(values))
    if not _uncertain(one, other, list(known)):
        return Score(value, None)
    return _score(values, over, [_freedom(one.cells[name], other.cells[name]) for name in known], (-1.0, 1.0))


def _scale(table: ScoreTable, task: str) -> tuple[float, float] | None:
    """Return what 0 and 1 of the normalised score are on a task; None where there is no such scale."""
    if table.anchor is None or task not in table.anchor.cells:
        return None
    low = table.anchor.cells[task].mean
    best = max((one.cells[task].mean for one in table.entries if one.kind == AGENT and task in one.cells), default=low)
    return (low, best) if best > low else None


def _norm_difference(one: Cell, other: Cell, scale: tuple[float, float]) -> float:
    return normalised(one.mean, *scale) - normalised(other.mean, *scale)


def _uncertain(one: Entry, other: Entry, names: Sequence[str]) -> bool:
    return any(one.cells[name].sample or other.cells[name].sample for name in names)


def _replicates(cell: Cell, resampler: Resampler) -> Floats:
    return resampler.means(cell.sample) if cell.sample else np.full(resampler.replicates, cell.mean)
