"""How far entries differ on a task, against how far equal entries would differ; and the verdict on the task.

With k entries, C = I - 1/k and S the covariance of their means' noise, equal entries' means m have on average the
variance tr(C S) / (k - 1). The ratio of the observed variance, m' C m / (k - 1), to that is Brown and Forsythe's (1974)
F* for entries of unequal variances, here with covariances too, as entries that played the same cases share their luck.
Its numerator has Box's (1954) degrees of freedom, tr(C S)^2 / tr(C S C S), as Mehrotra (1997) has them; its denominator
has those of many parts known from few repeats each, as in effects.
"""

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

import numpy as np

from evopolicygym.analysis.effects.estimate import pooled_freedom
from evopolicygym.analysis.ranking.bootstrap import ROUNDING, Floats, Sample, interval_coverage
from evopolicygym.analysis.ranking.decision import LEVEL, separation_chance
from evopolicygym.analysis.ranking.noise import pool_run_variances

_POINTS = 8_001
_MOST = 2_000.0
"""Degrees of freedom from which on more make no difference here."""


def f_tail(ratio: float, above: float, below: float) -> float:
    """Return the probability that F exceeds a ratio, with these degrees of freedom above and below the line.

    It is the incomplete beta function at below / (below + above * ratio), integrated over the angle whose squared sine
    that is. Degrees of freedom below 1 count as 1.
    """
    if not ratio > 0:
        return 1.0
    if math.isinf(ratio):
        return 0.0
    above, below = (min(max(freedom, 1.0), _MOST) for freedom in (above, below))
    end = math.asin(math.sqrt(below / (below + above * ratio)))
    angles = np.linspace(0.0, end, _POINTS)[1:]
    with np.errstate(divide="ignore"):
        logs = (below - 1) * np.log(np.sin(angles)) + (above - 1) * np.log(np.maximum(np.cos(angles), 1e-300))
    logs += math.log(2) + math.lgamma((above + below) / 2) - math.lgamma(above / 2) - math.lgamma(below / 2)
    density = np.exp(logs)
    density = np.append(density[0] if below == 1 else 0.0, density)
    return float(min(1.0, np.sum(density[1:] + density[:-1]) / 2 * (end / (_POINTS - 1))))


@cache
def least_ratio(freedom: int, chance: float = 0.05) -> float:
    """Return the ratio of an estimated variance to the true one that is undercut with this chance only."""
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if 1 - f_tail(middle, freedom, _MOST) < chance else (low, middle)
    return (low + high) / 2


@dataclass(frozen=True, slots=True)
class EntrySpread:
    """The spread of entries' means."""

    entries: int
    between: float
    """Standard deviation of the entries' means."""
    noise: float
    """The expected value of ``between`` if all entries were equal: the pooled standard error of a mean."""
    p: float | None
    """The probability of this ratio of both, or a larger one, if all entries are equal, but at least
    ``separation_chance``; None if entries differ and the repeats of each are all equal, so that noise is unknown."""
    is_repeated: bool
    """Whether the noise covers runs and cases; that of cases alone where no entry has two runs."""

    @property
    def ratio(self) -> float | None:
        """The standard deviation between entries over the noise; None without noise."""
        return self.between / self.noise if self.noise > 0 else None

    @property
    def at_most(self) -> float:
        """The largest standard deviation of the true means that leaves so small a one of the means a chance of 5 %.

        That is the end of a normal standard deviation's one-sided 95 % interval, as if the means had no noise; it is on
        the safe side, as noise is a part of what was found.
        """
        return self.between / math.sqrt(least_ratio(self.entries - 1))

    @property
    def covers(self) -> str:
        """The sources that the noise covers."""
        return interval_coverage(self.is_repeated)


@dataclass(frozen=True, eq=False)
class EntryMeans:
    """Means of entries with the covariance of their noise."""

    means: Floats
    """(entries,)"""
    covariance: Floats
    """(entries, entries)"""
    of_runs: tuple[tuple[float, float], ...]
    """The summands of the noise over runs in the variance between entries, each with its degrees of freedom."""
    of_cases: tuple[tuple[float, float], ...]
    """Those over cases."""
    repeats: tuple[tuple[int, ...], ...]
    """The entries' runs, task by task."""

    @property
    def is_repeated(self) -> bool:
        """Whether any entry has two runs on each task."""
        return all(max(runs) > 1 for runs in self.repeats)

    def spread(self) -> EntrySpread:
        """Return the spread of the means."""
        count, parts = len(self.means), (*self.of_runs, *self.of_cases)
        nothing = (ROUNDING * float(np.abs(self.means).max())) ** 2
        between, noise, of_runs = (
            variance if variance > nothing else 0.0
            for variance in (
                float(self.means.var(ddof=1)),
                sum(variance for variance, _ in parts),
                sum(variance for variance, _ in self.of_runs),
            )
        )
        centred = self.covariance - self.covariance.mean(axis=0)
        above = float(np.trace(centred)) ** 2 / square if (square := float(np.trace(centred @ centred))) > 0 else 1.0
        below = pooled_freedom([variance for variance, _ in parts], [freedom for _, freedom in parts])
        p: float | None = f_tail(between / noise if noise > 0 else 0.0, min(above, count - 1.0), below)
        if between > 0 and not (of_runs if self.is_repeated else noise) > 0:
            p = None
        elif self.is_repeated:
            p = max(p or 0.0, math.prod(separation_chance(*runs) for runs in self.repeats)) if between > 0 else 1.0
        return EntrySpread(count, math.sqrt(between), math.sqrt(noise), p, self.is_repeated)


def entry_means(samples: Sequence[Sample]) -> EntryMeans:
    """Return the means of two entries or more with their noise, that of runs where any entry has two.

    An entry with one run is then as uncertain as the others are on average.
    """
    variances, of_runs = _of_runs(samples)
    cases = _of_cases(samples)
    count = len(samples)
    of_cases = float(np.trace(cases) - cases.sum() / count) / (count - 1)
    freedom = max(block.returns.shape[1] for sample in samples for block in sample.blocks) - 1.0
    covariance = np.diag(variances) + (cases if of_cases > 0 else 0.0)
    means = np.array([sample.mean for sample in samples])
    part = ((of_cases, freedom),) if of_cases > 0 else ()
    return EntryMeans(means, covariance, tuple(of_runs), part, (tuple(len(sample.runs) for sample in samples),))


def mean_over_tasks(tasks: Sequence[tuple[EntryMeans, float]]) -> EntryMeans:
    """Return the entries' mean scores over tasks, each in units of its scale; tasks are independent."""
    shares = [1 / (scale * len(tasks)) for _, scale in tasks]
    each = [(share, task) for share, (task, _) in zip(shares, tasks, strict=True)]
    return EntryMeans(
        np.asarray(sum(share * task.means for share, task in each)),
        np.asarray(sum(share**2 * task.covariance for share, task in each)),
        tuple((share**2 * variance, freedom) for share, task in each for variance, freedom in task.of_runs),
        tuple((share**2 * variance, freedom) for share, task in each for variance, freedom in task.of_cases),
        tuple(runs for _, task in each for runs in task.repeats),
    )


def _of_runs(samples: Sequence[Sample]) -> tuple[Floats, list[tuple[float, float]]]:
    """Return each mean's variance over runs, and the parts of the noise that it makes."""
    repeated = [sample for sample in samples if sample.is_repeated]
    freedoms = [len(sample.runs) - 1.0 for sample in repeated]
    variances = [float(sample.runs.var(ddof=1)) for sample in repeated]
    alone = len(samples) - len(repeated)
    pooled = pool_run_variances(samples).variance
    of_runs = [
        float(sample.runs.var(ddof=1)) / len(sample.runs) if sample.is_repeated else pooled for sample in samples
    ]
    parts = [
        (variance * (1 / len(sample.runs) + alone * freedom / sum(freedoms)) / len(samples), freedom)
        for sample, variance, freedom in zip(repeated, variances, freedoms, strict=True)
    ]
    return np.array(of_runs), parts


def _of_cases(samples: Sequence[Sample]) -> Floats:
    """Return the covariance of the means over cases: entries that were played on the same ones share their luck."""
    covariance = np.diag([sample.of_cases for sample in samples])
    effects = [_effects_of_cases(sample) for sample in samples]
    for at, own in enumerate(effects):
        for column, other in enumerate(effects[:at]):
            shared = sum(
                float(own[cases] @ other[cases]) / _pairs(len(own[cases])) for cases in own.keys() & other.keys()
            )
            covariance[at, column] = covariance[column, at] = shared
    return covariance


def _effects_of_cases(sample: Sample) -> dict[Hashable, Floats]:
    """Return each case's effect on a mean over runs, weighted by its share of the runs, by the name of the cases."""
    means = {
        (block.cases, block.returns.shape[1]): (block.returns.mean(axis=0), len(block.returns))
        for block in sample.blocks
    }
    count = len(sample.runs)
    return {cases: runs / count * (mean - mean.mean()) for cases, (mean, runs) in means.items()}


def _pairs(cases: int) -> float:
    return max(cases * (cases - 1.0), 1.0)


FEWEST = 3
"""The least number of entries with runs for a verdict on a task."""
HALF = 0.5
"""The share of runs at the best known score from which on a task is nearly spent, or spent."""
EQUAL = 0.1
"""The share of the scale that the standard deviation of true means may have at most where a task is spent."""


class HeadroomVerdict(StrEnum):
    """How well a task, or a suite, distinguishes agents."""

    DISTINGUISHES = "distinguishes agents"
    """Entries differ by more than noise, and most runs are below the best known score."""
    NEARLY_SPENT = "nearly spent"
    """Entries differ by more than noise, but at least half of the runs are at the best known score."""
    SPENT = "spent"
    """Entries are equal as far as noise shows, and at least half of the runs are at the best known score."""
    IN_PART = "distinguishes agents in part"
    """A verdict on tasks together: some distinguish agents, and more of the others are too hard or noisy than spent."""
    TOO_HARD_OR_NOISY = "too hard or noisy"
    """Entries don't differ by more than noise, but they may differ, or most runs are below the best known score."""
    TOO_FEW_ENTRIES = "unknown (too few entries)"
    ONE_RUN_EACH = "unknown (one run each)"
    """Runs differ by more than cases explain; whether entries do, or a second run of each would, is not known."""
    EQUAL_REPEATS = "unknown (repeats are all equal)"
    """Entries differ, but the repeats of each are all equal, which doesn't tell how far others would differ."""

    @property
    def is_known(self) -> bool:
        """Whether anything can be said."""
        return self not in {
            HeadroomVerdict.TOO_FEW_ENTRIES, HeadroomVerdict.ONE_RUN_EACH, HeadroomVerdict.EQUAL_REPEATS,
        }  # fmt: skip


def verdict_of(
    spread: EntrySpread | None, p: float | None, at_best: float | None, scale: float | None
) -> HeadroomVerdict:
    """Return the verdict on a task.

    ``p`` is Holm's, ``at_best`` the share of runs at the best known score, ``scale`` the distance from uniform random
    to the best score; None if it isn't known.
    """
    if spread is None or spread.entries < FEWEST:
        return HeadroomVerdict.TOO_FEW_ENTRIES
    if p is None:
        return HeadroomVerdict.EQUAL_REPEATS if spread.is_repeated else HeadroomVerdict.ONE_RUN_EACH
    many = at_best is not None and at_best >= HALF
    if p >= LEVEL:
        are_equal = scale is not None and spread.at_most <= EQUAL * scale
        return HeadroomVerdict.SPENT if many and are_equal else HeadroomVerdict.TOO_HARD_OR_NOISY
    if not spread.is_repeated:
        return HeadroomVerdict.ONE_RUN_EACH
    return HeadroomVerdict.NEARLY_SPENT if many else HeadroomVerdict.DISTINGUISHES


def verdict_of_suite(tasks: Sequence[HeadroomVerdict], p: float | None) -> HeadroomVerdict:
    """Return the verdict on tasks together; ``p`` is Holm's of the entries' mean scores over them, of repeated runs."""
    counts = Counter(tasks)
    known = sum(count for verdict, count in counts.items() if verdict.is_known)
    spent, noisy = counts[HeadroomVerdict.SPENT], counts[HeadroomVerdict.TOO_HARD_OR_NOISY]
    if not known and HeadroomVerdict.ONE_RUN_EACH not in counts:
        return HeadroomVerdict.TOO_FEW_ENTRIES
    if known and counts[HeadroomVerdict.DISTINGUISHES] >= HALF * known:
        return HeadroomVerdict.DISTINGUISHES
    if HeadroomVerdict.ONE_RUN_EACH in counts:
        return HeadroomVerdict.ONE_RUN_EACH
    if spent + noisy == known and not (p is not None and p < LEVEL):
        return HeadroomVerdict.SPENT if spent >= HALF * known else HeadroomVerdict.TOO_HARD_OR_NOISY
    used_up = spent + counts[HeadroomVerdict.NEARLY_SPENT]
    return HeadroomVerdict.NEARLY_SPENT if used_up >= noisy else HeadroomVerdict.IN_PART
