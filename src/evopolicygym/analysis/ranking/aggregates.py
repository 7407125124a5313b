"""Aggregates over tasks and runs: interquartile mean, optimality gap, performance profiles (Agarwal et al. 2021).

Scores are normalised run by run, never clipped, and then aggregated over all runs of all tasks. Point estimates are
those of the library rliable where tasks have equally many runs; otherwise each task has the same weight.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evopolicygym.analysis.ranking.bootstrap import (
    Floats,
    Interval,
    Resampler,
    bootstrap_interval,
    bootstrap_reach,
    joint_freedom,
)
from evopolicygym.analysis.ranking.leaderboard import Score
from evopolicygym.analysis.ranking.score_table import Entry, ScoreTable
from evopolicygym.analysis.ranking.task_scale import BEST, TaskScale, ranked_among, scale_on
from evopolicygym.analysis.tables.table import Cell, Column, Number, Table

TRIMMED = 0.25
"""The share of scores that the interquartile mean leaves out at each end."""
OPTIMUM = 1.0
"""The normalised score that the optimality gap is measured from."""
THRESHOLDS = 101
"""Points of a performance profile."""

SHORTEST = 0.1
"""The shortest scale of a replicate, as a share of the scale."""

Statistic = Callable[[Floats], Floats]
"""Maps scores, shaped (..., scores), to one number for each of the leading axes."""


def interquartile_mean(scores: Floats) -> Floats:
    """Return the mean of the middle half of the scores, over the last axis.

    A quarter of the scores, rounded down, is left out at each end, as ``scipy.stats.trim_mean`` does. Source: Agarwal
    et al. 2021, arXiv 2108.13264, section 4.3.
    """
    count = scores.shape[-1]
    cut = int(TRIMMED * count)
    return np.asarray(np.sort(scores, axis=-1)[..., cut : count - cut].mean(axis=-1))


def optimality_gap(scores: Floats, optimum: float = OPTIMUM) -> Floats:
    """Return how far scores stay below the optimum on average, over the last axis; what is above it counts as it.

    Source: Agarwal et al. 2021, section 4.3.
    """
    return np.asarray(optimum - np.minimum(scores, optimum).mean(axis=-1))


def performance_profile(scores: Floats, thresholds: Floats) -> Floats:
    """Return the share of scores above each threshold, shaped (..., thresholds), over the last axis of scores.

    Source: Agarwal et al. 2021, section 4.2 (score distributions).
    """
    ordered = np.sort(scores, axis=-1)
    shape, count = ordered.shape[:-1], ordered.shape[-1]
    below = [np.searchsorted(row, thresholds, side="right") for row in ordered.reshape(-1, count)]
    return np.asarray(1 - np.reshape(below, (*shape, len(thresholds))) / count)


@dataclass(frozen=True, slots=True)
class Profile:
    """A performance profile with its pointwise 95 % band."""

    thresholds: tuple[float, ...]
    """Normalised scores."""
    shares: tuple[float, ...]
    """The share of runs above each threshold."""
    low: tuple[float, ...] | None
    """The lower end of the band; None without an interval."""
    high: tuple[float, ...] | None


@dataclass(frozen=True, slots=True)
class EntryAggregates:
    """The aggregates of an entry over its tasks."""

    entry: Entry
    tasks: int
    runs: int
    """Runs on all tasks; a published mean counts as one."""
    interquartile_mean: Score
    median: Score
    """The median over tasks of means over runs."""
    mean: Score
    """The mean over tasks of means over runs."""
    optimality_gap: Score
    profile: Profile


@dataclass(frozen=True, slots=True)
class Aggregates:
    """The aggregates of a table's entries, the largest interquartile mean first."""

    entries: tuple[EntryAggregates, ...]
    scales: Mapping[str, TaskScale]
    """The ends of the normalised scale, by task."""
    notes: tuple[str, ...] = ()


def aggregates(table: ScoreTable, *, normalise: str = BEST, resampler: Resampler | None = None) -> Aggregates:
    """Return the aggregates of all entries with a score on every task that has a scale.

    Intervals are from a stratified bootstrap: runs are drawn anew within each task, cases once for all entries that
    played them (``ranking/bootstrap.py``), and the best agent, where scores are normalised by it, from the same draws.
    ``normalise`` is that of the leaderboard.
    """
    resampler = resampler or Resampler()
    counts = ranked_among(table, partial=False)
    scales = {task.name: scale for task in table.tasks if (scale := scale_on(table, task.name, counts, normalise))}
    kept = [
        entry for entry in table.entries if all(name in entry.cells and entry.cells[name].has_score for name in scales)
    ]
    notes = []
    if left_out := [entry.shown for entry in table.entries if entry not in kept]:
        notes.append(f"Left out, as these lack scores on some tasks: {', '.join(left_out)}.")
    if without := [task.name for task in table.tasks if task.name not in scales]:
        notes.append(f"Left out, as scores can't be normalised there: {', '.join(without)}.")
    if not scales:
        return Aggregates((), scales, tuple(notes))
    scores = {entry.label: _task_scores(entry, scales) for entry in kept}
    top = max([OPTIMUM, *(float(runs.max()) for each in scores.values() for runs in each)])
    thresholds = np.linspace(0.0, math.ceil(10 * min(top, 2 * OPTIMUM)) / 10, THRESHOLDS)
    drawn = _DrawnScores(scales, resampler)
    entry_aggregates = [_entry_aggregates(entry, scores[entry.label], scales, thresholds, drawn) for entry in kept]
    ordered = sorted(entry_aggregates, key=lambda each: -each.interquartile_mean.value)
    return Aggregates(tuple(ordered), scales, tuple(notes))


def _task_scores(entry: Entry, scales: Mapping[str, TaskScale]) -> list[Floats]:
    """Return the normalised scores of an entry's runs, by task."""
    scores = []
    for name, scale in scales.items():
        cell = entry.cells[name]
        runs = cell.sample.runs if cell.sample else np.array([cell.mean])
        scores.append(np.nan_to_num((runs - scale.low) / (scale.best - scale.low)))
    return scores


def pool_tasks(scores: Sequence[Floats]) -> Floats:
    """Return the scores of tasks, each shaped (..., runs), in one array in which tasks have the same weight."""
    most = math.lcm(*(each.shape[-1] for each in scores))
    return np.concatenate([np.repeat(each, most // each.shape[-1], axis=-1) for each in scores], axis=-1)


def task_means(scores: Sequence[Floats]) -> Floats:
    """Return the mean over runs of each task, shaped (..., tasks)."""
    return np.stack([each.mean(axis=-1) for each in scores], axis=-1)


def _entry_aggregates(
    entry: Entry, scores: Sequence[Floats], scales: Mapping[str, TaskScale], thresholds: Floats, drawn: "_DrawnScores"
) -> EntryAggregates:
    samples = [entry.cells[name].sample for name in scales]
    known = [sample for sample in samples if sample is not None and sample.is_estimable]
    is_known = len(known) == len(samples) and any(sample.has_spread for sample in known)
    replicates = [drawn.scores(entry, name) for name in scales] if is_known else None
    freedom = math.inf
    if replicates is not None:
        variances = [float(each.mean(axis=-1).var()) for each in replicates]
        freedom = joint_freedom(variances, [sample.freedom for sample in known])

    def scored(statistic: Callable[[Sequence[Floats]], Floats], bounds: tuple[float, float] | None = None) -> Score:
        value = float(statistic(scores))
        if replicates is None:
            return Score(value, None)
        return Score(value, bootstrap_interval(value, statistic(replicates), freedom, bounds))

    return EntryAggregates(
        entry, len(scores), sum(len(each) for each in scores),
        interquartile_mean=scored(lambda each: interquartile_mean(pool_tasks(each))),
        median=scored(lambda each: np.asarray(np.median(task_means(each), axis=-1))),
        mean=scored(lambda each: np.asarray(task_means(each).mean(axis=-1))),
        optimality_gap=scored(lambda each: optimality_gap(pool_tasks(each)), (0.0, math.inf)),
        profile=_profile(scores, replicates, thresholds, freedom),
    )  # fmt: skip


class _DrawnScores:
    """Normalised scores of drawn runs on drawn cases, by entry and task, each shaped (replicates, runs)."""

    def __init__(self, scales: Mapping[str, TaskScale], resampler: Resampler) -> None:
        self._scales = scales
        self._resampler = resampler
        self._returns: dict[tuple[str, str], Floats] = {}
        self._best: dict[str, Floats] = {}

    def scores(self, entry: Entry, task: str) -> Floats:
        """Return an entry's scores on a task, normalised in each replicate by the best agent of that replicate."""
        scale = self._scales[task]
        if task not in self._best:
            means = [self._run_means(rival, task).mean(axis=-1) for rival in scale.of]
            best = np.max(means, axis=0) if means else np.array(scale.best)
            self._best[task] = np.maximum(best - scale.low, SHORTEST * (scale.best - scale.low))
        return np.asarray((self._run_means(entry, task) - scale.low) / self._best[task][..., None])

    def _run_means(self, entry: Entry, task: str) -> Floats:
        if (entry.label, task) not in self._returns:
            cell = entry.cells[task]
            drawn = self._resampler.run_means(cell.sample) if cell.sample else np.full((1, 1), cell.mean)
            self._returns[entry.label, task] = np.where(np.isnan(drawn), -np.inf, drawn)
        return self._returns[entry.label, task]


def _profile(
    scores: Sequence[Floats], replicates: Sequence[Floats] | None, thresholds: Floats, freedom: float
) -> Profile:
    shares = performance_profile(pool_tasks(scores), thresholds)
    if replicates is None:
        return Profile(tuple(thresholds.tolist()), tuple(shares.tolist()), None, None)
    reach = bootstrap_reach(shares, performance_profile(pool_tasks(replicates), thresholds), freedom)
    low, high = np.clip(shares - reach, 0, 1), np.clip(shares + reach, 0, 1)
    return Profile(tuple(thresholds.tolist()), tuple(shares.tolist()), tuple(low.tolist()), tuple(high.tolist()))


def aggregates_table(summary: Aggregates) -> Table:
    """Return the aggregates, a row for each entry."""
    columns = (
        Column("entry", "entry", is_text=True), Column("tasks", "tasks"), Column("runs", "runs"),
        Column("interquartile_mean", "interquartile mean"), Column("median", "median"), Column("mean", "mean"),
        Column("optimality_gap", "optimality gap"),
    )  # fmt: skip
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (row.entry.shown, row.tasks, row.runs, *(_number(score) for score in _scores(row))) for row in summary.entries
    )
    return Table("Aggregates of normalised scores", columns, rows, summary.notes)


def aggregates_document(summary: Aggregates) -> dict[str, Any]:
    """Return the aggregates for programs, with performance profiles."""
    return {
        "entries": [
            {
                "entry": row.entry.label,
                "tasks": row.tasks,
                "runs": row.runs,
                "interquartile_mean": _document(row.interquartile_mean),
                "median": _document(row.median),
                "mean": _document(row.mean),
                "optimality_gap": _document(row.optimality_gap),
                "profile": {
                    "thresholds": list(row.profile.thresholds),
                    "shares": list(row.profile.shares),
                    "low": None if row.profile.low is None else list(row.profile.low),
                    "high": None if row.profile.high is None else list(row.profile.high),
                },
            }
            for row in summary.entries
        ],
        "notes": list(summary.notes),
    }


def _scores(row: EntryAggregates) -> tuple[Score, ...]:
    return row.interquartile_mean, row.median, row.mean, row.optimality_gap


def _number(score: Score) -> Number:
    return Number(score.value, interval=score.interval)


def _document(score: Score) -> dict[str, Any]:
    ends: Interval | None = score.interval
    return {"value": score.value, "interval": None if ends is None else [ends.low, ends.high]}
