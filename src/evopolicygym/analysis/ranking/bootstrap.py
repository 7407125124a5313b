"""Intervals of scores over other repeats and other held-out cases, by bootstrap.

Returns of an entry on a task are a table of runs by cases. A replicate draws runs and, for all runs and all entries on
the same cases at once, cases; its mean is the mean plus the drawn runs' effects plus the drawn cases' effects. Effects
are scaled such that a mean's variance over replicates is its unbiased estimate at any number of runs, which plain
resampling understates by (R - 1) / R, and the part that belongs to a run on a case is counted once.
"""

import math
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evopolicygym.core.score import estimate

REPLICATES = 2000
COVERAGE = 0.95
MOST_KEPT_BYTES = 64 << 20
"""Limit on the bytes of cached draws and of cached sums, as if all were as large as the last."""
ROUNDING = 1e-9
"""Differences below this, as a share of the mean, are those of arithmetic."""
_NORMAL = 1.959963984540054

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Interval:
    """A 95 % interval."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Block:
    """Runs on the same cases."""

    cases: Hashable
    """Names the cases: entries whose blocks name the same are compared case by case."""
    returns: Floats
    """Runs by cases."""


@dataclass(frozen=True, eq=False)
class Sample:
    """The returns behind an entry's mean on a task."""

    blocks: tuple[Block, ...]

    @cached_property
    def runs(self) -> Floats:
        """Each run's mean."""
        return np.array([estimate(row.tolist()).mean for block in self.blocks for row in block.returns])

    @cached_property
    def mean(self) -> float:
        """The mean over runs of their means over cases."""
        return estimate(self.runs.tolist()).mean

    @cached_property
    def standard_error(self) -> float:
        """The root of the mean's variance, over runs and over cases."""
        return math.sqrt(sum(self._variances))

    @cached_property
    def freedom(self) -> float:
        """Degrees of freedom of the variance, after Satterthwaite; infinite without variance."""
        return joint_freedom(self._variances, self._freedoms)

    @property
    def is_repeated(self) -> bool:
        """Whether there are two runs at least; the variance between runs is unknown otherwise."""
        return len(self.runs) > 1

    @property
    def is_estimable(self) -> bool:
        """Whether the mean's uncertainty is known: there are at least two cases, for any number of runs.

        Of returns beyond about 1e154 the variance is not a finite number.
        """
        return any(block.returns.shape[1] > 1 for block in self.blocks) and math.isfinite(sum(self._variances))

    @property
    def covers(self) -> str:
        """The sources that the mean's interval covers."""
        with np.errstate(invalid="ignore"):
            are_equal = float(np.ptp(self.runs)) <= ROUNDING * float(np.abs(self.runs).max())
        return interval_coverage(self.is_repeated and not are_equal)

    @property
    def of_runs(self) -> tuple[float, float]:
        """The mean's variance over runs, and its degrees of freedom."""
        return self._variances[0], self._freedoms[0]

    @property
    def of_cases(self) -> float:
        """The mean's variance over cases."""
        return self._variances[1]

    @cached_property
    def _freedoms(self) -> tuple[float, float]:
        return len(self.runs) - 1.0, max(block.returns.shape[1] for block in self.blocks) - 1.0

    @cached_property
    def _variances(self) -> tuple[float, float]:
        """Return the mean's variance over runs, and over cases."""
        runs = self.runs
        with np.errstate(invalid="ignore", over="ignore"):  # of returns beyond 1e154 it is infinite
            of_runs = float(runs.var(ddof=1)) / len(runs) if len(runs) > 1 else 0.0
            of_cases = 0.0
            for block in self.blocks:
                effects = case_effects(block.returns)
                share = len(block.returns) / len(runs)
                of_cases += share**2 * float(effects @ effects) / len(effects) ** 2
        return of_runs, of_cases

    @property
    def cases_half_width(self) -> float:
        """The half-width of the mean's interval over cases alone."""
        return half_width(self._variances[1:], self._freedoms[1:])

    @cached_property
    def has_spread(self) -> bool:
        """Whether any returns differ, but for arithmetic; if not, nothing is known of the mean's uncertainty."""
        returns = np.concatenate([block.returns.ravel() for block in self.blocks])
        with np.errstate(invalid="ignore"):
            return not float(np.ptp(returns)) <= ROUNDING * float(np.abs(returns).max())

    def interval(self) -> Interval | None:
        """Return the mean's interval; None if all returns are equal."""
        if not self.has_spread:
            return None
        reach = half_width(self._variances, self._freedoms)
        return self.with_rare(Interval(self.mean - reach, self.mean + reach))

    def with_rare(self, interval: Interval) -> Interval:
        """Return an interval of the mean that allows for few returns of their kind.

        Where half of all returns or more are one value, as of a task that is rarely solved, few of the others were
        seen: the interval then holds that of their share too, at the distance of their mean.
        """
        values, counts = np.unique(np.concatenate([block.returns.ravel() for block in self.blocks]), return_counts=True)
        usual = float(values[counts.argmax()])
        if 2 * counts.max() < counts.sum() or len(values) == 1 or not np.isfinite(values).all():
            return interval
        others = Sample(tuple(Block(block.cases, 1.0 * (block.returns != usual)) for block in self.blocks))
        cases = max(block.returns.shape[1] for block in self.blocks)
        ends = rate_interval(others.mean, sum(others._variances), others.freedom, cases)
        apart = (self.mean - usual) / others.mean
        sides = usual + apart * ends.low, usual + apart * ends.high
        return Interval(min(interval.low, *sides), max(interval.high, *sides))


HELD_OUT = "held-out mean ± s.e."
"""The header of the column of ``held_out_sample`` in all tables."""


def held_out_sample(repeats: Sequence[tuple[Hashable, Sequence[float]]], random: float | None) -> Sample | None:
    """Return the sample of an entry's held-out mean on a task and its standard error: the only definition.

    Each repeat is its cases' name and its returns on them. The mean is that of repeats' means; the standard error is
    over repeats and cases. A repeat without a score counts as uniform random's mean, or as the worst other repeat where
    that is lower: to fail never pays. None if no repeat has a score.
    """
    scored = [returns for _, returns in repeats if returns]
    if not scored:
        return None
    means = [estimate(returns).mean for returns in scored]
    worst = min([*means, *([random] if random is not None else [])])
    longest = max(map(len, scored))
    blocks: dict[tuple[Hashable, int], list[Sequence[float]]] = defaultdict(list)
    for cases, repeat_returns in repeats:
        returns = repeat_returns or (worst,) * longest
        blocks[cases, len(returns)].append(returns)
    return Sample(tuple(Block(name, np.array(returns, dtype=float)) for name, returns in blocks.items()))


def interval_coverage(is_repeated: bool) -> str:  # noqa: FBT001 - of whatever has the interval
    """Return the sources that an interval covers: ``runs and cases``, or ``cases`` alone with one run."""
    return "runs and cases" if is_repeated else "cases"


def case_effects(returns: Floats) -> Floats:
    """Return each case's effect on the mean, scaled so that drawing with replacement has the right variance."""
    runs, cases = returns.shape
    if cases == 1:
        return np.zeros(1)
    with np.errstate(invalid="ignore", over="ignore"):
        effects: Floats = returns.mean(axis=0) - returns.mean()
        if runs > 1:  # what a run does on a case is in the runs' effects already
            total = float(effects @ effects) / (cases - 1)
            rest = returns - returns.mean(axis=1, keepdims=True) - effects
            own = float((rest**2).sum()) / ((runs - 1) * (cases - 1)) / runs
            effects = effects * math.sqrt(max(0.0, 1 - own / total)) if total > 0 else effects
    return effects * math.sqrt(cases / (cases - 1))


_DRAWS: dict[Hashable, tuple[NDArray[Any], Any]] = {}
"""Draws that were made, each with the generator's state after it: tables that share entries draw the same again."""
_SUMS: dict[Hashable, Floats] = {}
"""The sums of the drawn cases' effects, by the key of the draw and the effects."""


def _keep(kept: dict[Hashable, Any], key: Hashable, value: object, n_bytes: int) -> None:
    """Cache a value; clear the cache first if it would exceed the limit."""
    if (len(kept) + 1) * n_bytes > MOST_KEPT_BYTES:
        kept.clear()
    kept[key] = value


class Resampler:
    """Draws replicates; cases of a name are drawn once, for all entries that played them."""

    def __init__(self, replicates: int = REPLICATES, seed: int = 0) -> None:
        self.replicates = replicates
        self._random = np.random.default_rng(seed)
        self._draws: tuple[int | str, ...] = (seed, replicates)
        """The key of the next draw: the seed, the number of replicates, and the sizes of all draws so far."""
        self._drawn: dict[tuple[Hashable, int], tuple[NDArray[Any], tuple[int | str, ...]]] = {}
        """The counts of each case of a name, and the key of the draw."""

    def means(self, sample: Sample) -> Floats:
        """Return a sample's mean in each replicate."""
        return sample.mean + self._of_runs(sample) + self._of_cases(sample)

    def run_means(self, sample: Sample) -> Floats:
        """Return the means of drawn runs in each replicate, shaped (replicates, runs): a stratified bootstrap.

        Runs' deviations from their mean are scaled as in ``means``, and all runs share the effect of the drawn cases.
        """
        runs = sample.runs
        count = len(runs)
        effects = (runs - runs.mean()) * (math.sqrt(count / (count - 1)) if count > 1 else 1.0)
        drawn = self._random.integers(count, size=(self.replicates, count)) if count > 1 else np.zeros((1, 1), int)
        self._draws = (*self._draws, "runs", count)
        return np.asarray(runs.mean() + effects[drawn] + self._of_cases(sample)[:, None])

    def _of_cases(self, sample: Sample) -> Floats:
        """Return the effect of the drawn cases on a sample's mean, by replicate."""
        added, runs = np.zeros(self.replicates), sum(len(block.returns) for block in sample.blocks)
        for block in sample.blocks:
            effects = case_effects(block.returns)
            with np.errstate(invalid="ignore"):
                added += len(block.returns) / runs * self._case_sums(block.cases, effects)
        return added

    def _of_runs(self, sample: Sample) -> Floats:
        runs = sample.runs
        if len(runs) == 1:
            return np.zeros(self.replicates)
        with np.errstate(invalid="ignore"):
            effects = (runs - runs.mean()) * math.sqrt(len(runs) / (len(runs) - 1))
            return np.asarray(self._draw(len(runs)) / len(runs) @ effects)

    def _case_sums(self, cases: Hashable, effects: Floats) -> Floats:
        """Return the mean of the drawn cases' effects, by replicate."""
        if (cases, len(effects)) not in self._drawn:
            self._drawn[cases, len(effects)] = self._draw(len(effects)), self._draws
        counts, draws = self._drawn[cases, len(effects)]
        sums = _SUMS.get((draws, effects.tobytes()))
        if sums is None:
            sums = np.asarray(counts / len(effects) @ effects)
            _keep(_SUMS, (draws, effects.tobytes()), sums, sums.nbytes)
        return sums

    def _draw(self, count: int) -> NDArray[Any]:
        """Return the counts of ``count`` items in a draw, by replicate."""
        self._draws = (*self._draws, count)
        if (made := _DRAWS.get(self._draws)) is None:
            counts = self._random.multinomial(count, np.full(count, 1 / count), self.replicates)
            made = counts.astype(np.min_scalar_type(count)), self._random.bit_generator.state
            _keep(_DRAWS, self._draws, made, made[0].nbytes)
        counts, self._random.bit_generator.state = made
        return counts


def bootstrap_interval(
    value: float, replicates: Floats, freedom: float, bounds: tuple[float, float] | None = None
) -> Interval:
    """Return the symmetric percentile interval of a statistic, widened as Student's is against the normal.

    It reaches as far to both sides as 95 % of replicates lie from the value (Hall 1988), and farther by the replicates'
    bias: ranks and norms of noisy means are biased, and their replicates once more in the same direction, so the truth
    lies about as far from the value on the other side. An interval of the replicates' own percentiles would be pushed
    away from it. It stays within bounds that the statistic can't leave.
    """
    if not np.isfinite(replicates).all() or not math.isfinite(value):
        return Interval(math.nan, math.nan)
    reach = float(bootstrap_reach(np.array(value), replicates, freedom))
    low, high = value - reach, value + reach
    return Interval(max(low, bounds[0]), min(high, bounds[1])) if bounds else Interval(low, high)


def bootstrap_reach(values: Floats, replicates: Floats, freedom: float) -> Floats:
    """Return the half-widths of the intervals of statistics, whose replicates are along the first axis."""
    reach = np.quantile(np.abs(replicates - values), COVERAGE, axis=0) * t_quantile(freedom) / _NORMAL
    return np.asarray(reach + np.abs(replicates.mean(axis=0) - values))


@lru_cache(4096)
def share_interval(share: float, count: float) -> Interval:
    """Return the interval of a share of ``count`` independent trials, which may be an effective number.

    It is Clopper and Pearson's (1934), by quantiles of the beta distribution: it never covers too little, and has a
    width even where all trials end alike.
    """
    hits, tail = share * count, (1 - COVERAGE) / 2
    low = beta_quantile(tail, hits, count - hits + 1) if hits > 0 else 0.0
    high = 1 - beta_quantile(tail, count - hits, hits + 1) if hits < count else 1.0
    return Interval(min(low, share), max(high, share))


def rate_interval(rate: float, variance: float, freedom: float, cases: int) -> Interval:
    """Return the interval of a rate with an estimated variance, over runs and cases.

    It is that of Korn and Graubard (1998): Clopper and Pearson's, with as many independent trials as would give the
    variance, times the square of the normal's over Student's quantile. Without variance the cases count as trials.
    """
    if not variance > 0:
        return share_interval(rate, cases)
    return share_interval(rate, rate * (1 - rate) / variance * (_NORMAL / t_quantile(freedom)) ** 2)


def mean_rate_interval(rates: Sequence[float], intervals: Sequence[Interval]) -> Interval:
    """Return the interval of a mean of independent rates, given the interval of each.

    It is Zou and Donner's (2008): to either side it reaches the root of the sum of squares of how far the rates' own
    intervals reach, so that it has a width even where every rate is 0 or 1.
    """
    count, value = len(rates), math.fsum(rates) / len(rates)
    down = math.hypot(*(rate - own.low for rate, own in zip(rates, intervals, strict=True))) / count
    up = math.hypot(*(own.high - rate for rate, own in zip(rates, intervals, strict=True))) / count
    return Interval(value - down, value + up)


def beta_quantile(level: float, first: float, second: float) -> float:
    """Return the quantile of the beta distribution with two positive parameters."""
    steps = np.linspace(0.0, 1.0, 4_001)[1:-1]
    angles = math.pi / 2 * steps**3 / (steps**3 + (1 - steps) ** 3)  # fine at both ends, where the density may be high
    slopes = steps**2 * (1 - steps) ** 2 / (steps**3 + (1 - steps) ** 3) ** 2
    logs = (2 * first - 1) * np.log(np.sin(angles)) + (2 * second - 1) * np.log(np.cos(angles)) + np.log(slopes)
    density = np.exp(logs - logs.max())
    below = (np.cumsum(density) - density / 2) / density.sum()
    return math.sin(float(np.interp(level, below, angles))) ** 2


def half_width(variances: Sequence[float], freedoms: Sequence[float]) -> float:
    """Return the half-width of the interval of an estimate whose variance is a sum of estimated parts.

    It is midway between two constructions. Student's at Satterthwaite's degrees of freedom covers too little where a
    part that is known from two or three runs matters; that of Banerjee (1960), the root of the parts' sum, each times
    its own quantile's square, never covers too little, and too much where that part is small. With one part both are
    Student's.
    """
    parts = [(variance, freedom) for variance, freedom in zip(variances, freedoms, strict=True) if freedom > 0]
    satterthwaite = t_quantile(joint_freedom(variances, freedoms)) * math.sqrt(sum(variances))
    banerjee = math.sqrt(sum(variance * t_quantile(freedom) ** 2 for variance, freedom in parts))
    return (satterthwaite + banerjee) / 2


def joint_freedom(variances: Sequence[float], freedoms: Sequence[float]) -> float:
    """Return the degrees of freedom of a sum of independent parts, after Satterthwaite."""
    exponent = math.frexp(max(variances, default=0.0))[1]  # a power of two changes no digit, and no square overflows
    scaled = [math.ldexp(variance, -exponent) for variance in variances]
    weights = [_share(variance, freedom) for variance, freedom in zip(scaled, freedoms, strict=True)]
    return sum(scaled) ** 2 / sum(weights) if sum(weights) > 0 else math.inf


def _share(variance: float, freedom: float) -> float:
    return variance**2 / freedom if freedom > 0 else 0.0


_ANGLES = np.linspace(0.0, math.pi / 2, 4_001)
_COSINES = np.cos(_ANGLES)


@lru_cache(4096)
def t_quantile(freedom: float, coverage: float = COVERAGE) -> float:
    """Return the half-width of Student's interval of this coverage, in standard errors.

    At 95 % that is its 97.5 % quantile: 2.776 at 4 degrees of freedom, 1.96 at infinitely many.
    """
    if not freedom < 1e4:  # noqa: PLR2004 - from here on the normal's, to four digits; not a number too
        return NormalDist().inv_cdf((1 + coverage) / 2)
    # with t = sqrt(freedom) tan(angle), the density is proportional to cos(angle) ** (freedom - 1)
    density = _COSINES ** (max(freedom, 1.0) - 1)
    below = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    return math.sqrt(max(freedom, 1.0)) * math.tan(float(np.interp(coverage, below / below[-1], _ANGLES)))
