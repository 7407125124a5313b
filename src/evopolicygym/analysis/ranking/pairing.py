"""The comparison of two entries: paired by task, and by case if both played the same cases."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from evopolicygym.analysis.ranking.bootstrap import (
    Floats,
    Interval,
    Resampler,
    bootstrap_interval,
    interval_coverage,
    joint_freedom,
    share_interval,
)
from evopolicygym.analysis.ranking.decision import (
    LEVEL,
    UNKNOWN,
    Decision,
    JointDecision,
    decide_jointly,
    decide_samples,
    holm,
    paired_returns,
)
from evopolicygym.analysis.ranking.leaderboard import ONE_REPEAT, Score
from evopolicygym.analysis.ranking.noise import NoiseComparison, compare_to_noise
from evopolicygym.analysis.ranking.score_table import Cell, Entry, ScoreTable
from evopolicygym.analysis.ranking.task_scale import TaskScale, ranked_among, scale_on
from evopolicygym.core.errors import UsageError

Verdict = Literal["first", "second", "neither"]
HOLM = (
    "A task's better entry is named by p-values that Holm (1979) adjusts over all tasks: of two equal agents, at most "
    "one comparison in 20 names any task. Intervals are of one task each."
)

NOISE = (
    "Noise floor: how far the means of so many runs of one agent lie apart at most in 95 % of pairs, by the repeats of "
    "both. A difference within it may be no more than that of two runs."
)


@dataclass(frozen=True, slots=True)
class CaseDifference:
    """A held-out case on which two entries differ."""

    case: int
    difference: float


@dataclass(frozen=True, slots=True)
class TaskDifference:
    """The difference of two entries on a task; positive if the first is better."""

    task: str
    first: float
    second: float
    difference: float
    repeats: tuple[int, int]
    """The repeats of the first and of the second; 0 if only a mean was published."""
    paired: bool
    """Whether both were played on the same cases."""
    improvement: float
    """Share of pairs of repeats in which the first is better, ties half, on the cases that were played."""
    improvement_interval: Interval | None
    """None if both have only a published mean."""
    normalised: float | None
    """The difference over the scale, from uniform random to the best agent; not clipped, so it may be beyond 1."""
    most: CaseDifference | None
    """The case on which they differ most; None if they weren't played on the same."""
    decision: Decision
    """Whether the difference is more than chance."""
    p_holm: float | None = None
    """The p-value, adjusted by Holm over all tasks of the comparison."""
    noise: NoiseComparison | None = None
    """The difference beside that of equal agents' runs; None if their spread is unknown."""

    @property
    def is_repeated(self) -> bool:
        """Whether there are two repeats of each at least."""
        return min(self.repeats) > 1

    @property
    def covers(self) -> str | None:
        """The sources that the interval covers; None without an interval."""
        return None if self.interval is None else interval_coverage(self.p is not None)

    @property
    def verdict(self) -> Verdict | None:
        """Which entry is better by the adjusted p-value; None if that is unknown."""
        if self.p_holm is None:
            return None
        return _verdict(self.p_holm, self.difference)

    @property
    def interval(self) -> Interval | None:
        """The 95 % interval of the difference."""
        return self.decision.interval

    @property
    def p(self) -> float | None:
        """Two-sided, of no difference; None with fewer than two repeats of each, or if the spread between runs is 0."""
        return self.decision.p


def _verdict(p: float, difference: float) -> Verdict:
    return "neither" if p >= LEVEL else "first" if difference > 0 else "second"


@dataclass(frozen=True, slots=True)
class Pairing:
    """The difference of two entries."""

    first: Entry
    second: Entry
    tasks: tuple[TaskDifference, ...]
    """The tasks of both entries, those with the largest normalised difference first."""
    improvement: Score
    """Probability that the first improves on the second, over tasks (Agarwal et al. 2021)."""
    normalised: Score | None
    """Mean of the tasks' normalised differences; not clipped."""
    noise: NoiseComparison | None = None
    """The same beside that of equal agents' runs; None if that is unknown on a task."""
    joint: JointDecision = UNKNOWN
    """Whether the differences on all tasks with two repeats of each are more than chance together."""
    of_table: tuple[str, ...] = ()
    """The notes of the table that the entries come from."""

    @property
    def verdict(self) -> Verdict | None:
        """Which entry is better over all tasks; None if that is unknown."""
        return None if self.joint.p is None else _verdict(self.joint.p, self.joint.evidence)

    @property
    def better_on(self) -> tuple[int, int] | None:
        """On how many tasks the first is better, and the second; None if no task has two repeats of each."""
        known = [task.verdict for task in self.tasks if task.verdict]
        return (known.count("first"), known.count("second")) if known else None

    @property
    def covers(self) -> str | None:
        """The sources that the interval of the normalised difference covers; None without an interval."""
        known = self.normalised is not None and self.normalised.interval is not None
        return interval_coverage(all(task.is_repeated for task in self.tasks)) if known else None

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes for readers."""
        notes = (*self.of_table, HOLM) if sum(task.p is not None for task in self.tasks) > 1 else self.of_table
        notes = (*notes, NOISE) if any(task.noise for task in self.tasks) else notes
        if not any(task.covers == "cases" for task in self.tasks):
            return notes
        return (*notes, ONE_REPEAT, "Tasks with fewer than two repeats of each entry have no verdict.")


def pairing(
    table: ScoreTable,
    first: str,
    second: str,
    resampler: Resampler | None = None,
) -> Pairing:
    """Return how two entries of a table differ; raise ``UsageError`` if they have no task in common.

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
    tasks = _adjust_p_values(
        [_difference(name, entry.cells[name], other.cells[name], scales.get(name)) for name in names]
    )
    notes = table.notes
    if unscored := [name for name in both if name not in names]:
        notes = (*notes, f"Left out, as one of both has no score there: {', '.join(unscored)}.")
    normalised = _normalised(entry, other, scales, resampler or Resampler())
    return Pairing(
        entry, other, tuple(sorted(tasks, key=_sort_key, reverse=True)), _improvement_over(tasks), normalised,
        noise=compare_to_noise(
            [
                (entry.cells[name].sample, other.cells[name].sample, scale.best - scale.low)
                for name, scale in scales.items()
            ]
        ),
        joint=decide_jointly([task.decision for task in tasks if task.is_repeated]),
        of_table=notes,
    )  # fmt: skip


def _sort_key(task: TaskDifference) -> tuple[float, float]:
    size = abs(task.difference) if math.isfinite(task.difference) else math.inf
    return (abs(task.normalised) if task.normalised is not None else 0.0), size


def _adjust_p_values(tasks: Sequence[TaskDifference]) -> list[TaskDifference]:
    return [replace(task, p_holm=p) for task, p in zip(tasks, holm([task.p for task in tasks]), strict=True)]


def _difference(name: str, cell: Cell, other: Cell, scale: TaskScale | None) -> TaskDifference:
    paired, most = False, None
    decision = Decision(cell.mean - other.mean, None, None, 0.0)
    share = improvement(_means(cell), _means(other))
    if cell.sample and other.sample:
        both = paired_returns(cell.sample, other.sample)
        paired = both is not None
        if cell.sample.is_estimable and other.sample.is_estimable:
            decision = decide_samples(cell.sample, other.sample)
        if both is not None:
            apart = both[0].mean(axis=0) - both[1].mean(axis=0)
            at = int(np.argmax(np.abs(apart)))
            most = CaseDifference(at, float(apart[at]))
    return TaskDifference(
        name, cell.mean, other.mean, decision.difference, (_repeats(cell), _repeats(other)), paired,
        improvement=share,
        improvement_interval=improvement_interval(share, [(_repeats(cell), _repeats(other))]),
        normalised=_norm_difference(cell, other, scale) if scale else None, most=most, decision=decision,
        noise=compare_to_noise([(cell.sample, other.sample, 1.0)]),
    )  # fmt: skip


def _repeats(cell: Cell) -> int:
    return len(cell.sample.runs) if cell.sample else 0


def _means(cell: Cell) -> Floats:
    return cell.sample.runs if cell.sample else np.array([cell.mean])


def improvement(first: Floats, other: Floats) -> float:
    """Return the share of pairs in which the first is better, ties half."""
    better, same = first[:, None] > other[None, :], first[:, None] == other[None, :]
    return float((better + same / 2).mean())


def _improvement_over(tasks: Sequence[TaskDifference]) -> Score:
    """Return the mean over tasks, with the interval that repeats give: each is drawn anew, on the same cases."""
    value = float(np.mean([task.improvement for task in tasks]))
    return Score(value, improvement_interval(value, [task.repeats for task in tasks]))


def improvement_interval(share: float, repeats: Sequence[tuple[int, int]]) -> Interval | None:
    """Return the interval of a mean over tasks of shares of pairs of repeats; None without repeats.

    With m and n repeats, a task's share has about the variance p (1 - p) (1 + 2 / 3 (N - 1)) / (m n), N = (m + n) / 2:
    the formula of Hanley and McNeil (1982) as Newcombe (2006) has it, at its largest. The mean over tasks is then as
    certain as a share of so many independent trials, whose interval is Clopper and Pearson's. A published mean is
    taken as exact.
    """
    variances = []
    for first, second in repeats:
        if first and second:
            variances.append((1 + 2 / 3 * ((first + second) / 2 - 1)) / (first * second))
        elif most := max(first, second):
            variances.append(1 / most)
    return share_interval(share, len(repeats) ** 2 / sum(variances)) if variances else None


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
        replicates = [_over(scale, cell, resampler) for cell in (mine, theirs)]
        over.append(np.nan_to_num(replicates[0]) - np.nan_to_num(replicates[1]))
    value = float(np.mean(values))
    samples = [sample for name in scales for cell in (entry.cells[name], other.cells[name]) if (sample := cell.sample)]
    if not any(sample.has_spread for sample in samples) or not all(sample.is_estimable for sample in samples):
        return Score(value, None)
    freedoms = [_freedom(entry.cells[name], other.cells[name]) for name in scales]
    freedom = joint_freedom([float(each.var()) for each in over], freedoms)
    return Score(value, bootstrap_interval(value, np.mean(over, axis=0), freedom))


def _norm_difference(cell: Cell, other: Cell, scale: TaskScale) -> float:
    return (cell.mean - other.mean) / (scale.best - scale.low)


def _over(scale: TaskScale, cell: Cell, resampler: Resampler) -> Floats:
    """Return a cell's place on the scale over replicates; not clipped."""
    replicates = resampler.means(cell.sample) if cell.sample else np.full(resampler.replicates, cell.mean)
    return (replicates - scale.low) / (scale.best - scale.low)
