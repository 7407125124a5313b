"""Two entries side by side: paired by task, and by case where both were played on the same.

The standings of many entries are described in ``leaderboard.py``.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from evopolicygym.analysis.ranking.bootstrap import (
    Floats,
    Interval,
    Resampler,
    Sample,
    bootstrap_interval,
    covered,
    half_width,
    joint_freedom,
    share_interval,
)
from evopolicygym.analysis.ranking.leaderboard import ONE_REPEAT, Score, TaskScale, ranked_among, scale_on
from evopolicygym.analysis.ranking.score_table import Cell, Entry, ScoreTable
from evopolicygym.core.errors import UsageError

Verdict = Literal["first", "second", "neither"]


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
    """None where either has only a published mean, or a single case of a single run."""
    repeats: tuple[int, int]
    """Of the first and of the second; 0 where only a mean was published."""
    paired: bool
    """Whether both were played on the same cases."""
    improvement: float
    """Share of pairs of repeats in which the first is better, ties half, on the cases that were played."""
    normalised: float | None
    """The difference over the scale, from uniform random to the best agent; not clipped, so it may be beyond 1."""
    most: CaseDifference | None
    """The case on which they differ most; None where they weren't played on the same."""

    @property
    def is_repeated(self) -> bool:
        """Whether there are two repeats of each at least."""
        return min(self.repeats) > 1

    @property
    def covers(self) -> str | None:
        """What the interval covers; None without one."""
        return None if self.interval is None else covered(self.is_repeated)

    @property
    def verdict(self) -> Verdict | None:
        """Which is better as far as the interval tells; None below two repeats of each, which decide nothing."""
        if self.interval is None or not self.is_repeated:
            return None
        return "first" if self.interval.low > 0 else "second" if self.interval.high < 0 else "neither"


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
    """Mean of the tasks' normalised differences; not clipped."""
    of_table: tuple[str, ...] = ()
    """What a reader has to know of the table that the entries are of."""

    @property
    def better_on(self) -> tuple[int, int] | None:
        """On how many tasks the first is better, and the second; None where no task has two repeats of each."""
        known = [task.verdict for task in self.tasks if task.verdict]
        return (known.count("first"), known.count("second")) if known else None

    @property
    def covers(self) -> str | None:
        """What the interval of the normalised difference covers; None without one."""
        known = self.normalised is not None and self.normalised.interval is not None
        return covered(all(task.is_repeated for task in self.tasks)) if known else None

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader has to know of it."""
        if not any(task.covers == "cases" for task in self.tasks):
            return self.of_table
        return (*self.of_table, ONE_REPEAT, "Tasks with fewer than two repeats of each entry have no verdict.")


def pairing(table: ScoreTable, first: str, second: str, resampler: Resampler | None = None) -> Pairing:
    """Return how two entries of a table differ; raise ``UsageError`` where they have no task in common.

    Differences are normalised by the scale of the whole table's leaderboard, and not clipped as scores are there: a win
    above the best agent, which a leaderboard can't show, is one here. Tasks without a score of both are left out.
    """
    entry, other = table.entry(first), table.entry(second)
    both = [task.name for task in table.tasks if task.name in entry.cells and task.name in other.cells]
    names = [name for name in both if entry.cells[name].has_score and other.cells[name].has_score]
    if both and not names:
        without = next(side for side in (entry, other) if not side.cells[both[0]].has_score)
        raise UsageError(f"{without.label!r} has no score on {both[0]}: there is nothing to compare.")
    if not names:
        raise UsageError(
            f"{first!r} and {second!r} have no task in common: "
            f"{', '.join(entry.cells)} against {', '.join(other.cells)}."
        )
    counts = ranked_among(table, partial=False)
    scales = {name: scale for name in names if (scale := scale_on(table, name, counts))}
    tasks = [_difference(name, entry.cells[name], other.cells[name], scales.get(name)) for name in names]
    notes = table.notes
    if unscored := [name for name in both if name not in names]:
        notes = (*notes, f"Left out, as one of both has no score there: {', '.join(unscored)}.")
    return Pairing(
        entry, other, tuple(sorted(tasks, key=_apart, reverse=True)), _improvement_over(entry, other, tasks),
        _normalised(entry, other, scales, resampler or Resampler()), notes,
    )  # fmt: skip


def _apart(task: TaskDifference) -> tuple[float, float]:
    size = abs(task.difference) if math.isfinite(task.difference) else math.inf
    return (abs(task.normalised) if task.normalised is not None else 0.0), size


def _difference(name: str, cell: Cell, other: Cell, scale: TaskScale | None) -> TaskDifference:
    interval, paired, most = None, False, None
    if cell.sample and other.sample:
        both = _joined(cell.sample, other.sample)
        paired = both is not None
        if cell.sample.is_estimable and other.sample.is_estimable:
            reach = _reach(cell.sample, other.sample, both)
            interval = Interval(cell.mean - other.mean - reach, cell.mean - other.mean + reach)
        if both is not None:
            apart = both[0].mean(axis=0) - both[1].mean(axis=0)
            at = int(np.argmax(np.abs(apart)))
            most = CaseDifference(at, float(apart[at]))
    return TaskDifference(
        name, cell.mean, other.mean, cell.mean - other.mean, interval, (_repeats(cell), _repeats(other)), paired,
        improvement=_improvement(_means(cell), _means(other)),
        normalised=_norm_difference(cell, other, scale) if scale else None, most=most,
    )  # fmt: skip


def _joined(sample: Sample, other: Sample) -> tuple[Floats, Floats] | None:
    """Return both tables of returns where they are on the same cases."""
    if len(sample.blocks) != 1 or len(other.blocks) != 1 or sample.blocks[0].cases != other.blocks[0].cases:
        return None
    return sample.blocks[0].returns, other.blocks[0].returns


def _reach(first: Sample, other: Sample, both: tuple[Floats, Floats] | None) -> float:
    """Return how far the interval of two means' difference reaches; cases that both were played on cancel out."""
    variance = first.standard_error**2 + other.standard_error**2
    cases = min(block.returns.shape[1] for sample in (first, other) for block in sample.blocks)
    if both is not None and cases > 1:
        variance -= 2 * float(np.cov(both[0].mean(axis=0), both[1].mean(axis=0))[0, 1]) / cases
    of_runs = [first.of_runs, other.of_runs]
    of_cases = max(0.0, variance - sum(part for part, _ in of_runs))
    return half_width([of_cases, *(part for part, _ in of_runs)], [cases - 1, *(freedom for _, freedom in of_runs)])


def _repeats(cell: Cell) -> int:
    return len(cell.sample.runs) if cell.sample else 0


def _means(cell: Cell) -> Floats:
    return cell.sample.runs if cell.sample else np.array([cell.mean])


def _improvement(first: Floats, other: Floats) -> float:
    """Return the share of pairs in which the first is better, ties half."""
    better, same = first[:, None] > other[None, :], first[:, None] == other[None, :]
    return float((better + same / 2).mean())


def _improvement_over(first: Entry, other: Entry, tasks: Sequence[TaskDifference]) -> Score:
    """Return the mean over tasks, with the interval that repeats give: each is drawn anew, on the same cases.

    On a task with m repeats on the side that has fewer, the share is a mean of means of m independent pairs, so what
    bounds the mean of m draws between 0 and 1 per task bounds it too (Hoeffding 1963, theorem 1 and section 5b).
    """
    value = float(np.mean([task.improvement for task in tasks]))
    repeats = [len(s.runs) for task in tasks for entry in (first, other) if (s := entry.cells[task.task].sample)]
    return Score(value, share_interval(value, len(tasks) * min(repeats)) if repeats else None)


def _freedom(first: Cell, other: Cell) -> float:
    samples = [cell.sample for cell in (first, other) if cell.sample]
    return joint_freedom([sample.standard_error**2 for sample in samples], [sample.freedom for sample in samples])


def _normalised(entry: Entry, other: Entry, scales: Mapping[str, TaskScale], resampler: Resampler) -> Score | None:
    """Return the mean of the normalised differences; scales are taken as they are, not drawn."""
    if not scales:
        return None
    values, over = [], []
    for name, scale in scales.items():
        mine, theirs = entry.cells[name], other.cells[name]
        values.append(_norm_difference(mine, theirs, scale))
        drawn = [_over(scale, cell, resampler) for cell in (mine, theirs)]
        over.append(np.nan_to_num(drawn[0]) - np.nan_to_num(drawn[1]))
    value = float(np.mean(values))
    samples = [sample for name in scales for cell in (entry.cells[name], other.cells[name]) if (sample := cell.sample)]
    if not samples or not all(sample.is_estimable for sample in samples):
        return Score(value, None)
    freedoms = [_freedom(entry.cells[name], other.cells[name]) for name in scales]
    freedom = joint_freedom([float(each.var()) for each in over], freedoms)
    return Score(value, bootstrap_interval(value, np.mean(over, axis=0), freedom))


def _norm_difference(cell: Cell, other: Cell, scale: TaskScale) -> float:
    return (cell.mean - other.mean) / (scale.best - scale.low)


def _over(scale: TaskScale, cell: Cell, resampler: Resampler) -> Floats:
    """Return a cell's place on the scale over replicates; not clipped."""
    drawn = resampler.means(cell.sample) if cell.sample else np.full(resampler.replicates, cell.mean)
    return (drawn - scale.low) / (scale.best - scale.low)
