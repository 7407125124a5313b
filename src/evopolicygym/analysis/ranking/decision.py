"""The one decision whether an agent is better than another: p-values of differences, on a task and over tasks.

``compare``, tiers, ``effects`` and ``headroom`` call it, and ``power`` forecasts it. Its error rates are measured by
``benchmarks/verdicts.py``, through these verbs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from statistics import NormalDist

import numpy as np

from evopolicygym.analysis.ranking.bootstrap import ROUNDING, Floats, Interval, Sample, joint_freedom

LEVEL = 0.05
"""The chance of a false verdict in a family of comparisons of equal agents."""
SMALLEST = 1e-9
"""The smallest p-value that is distinguished from nothing."""
_LOG_P = np.linspace(0.0, math.log(SMALLEST), 400)
_LOG_T = np.linspace(math.log(1e-4), math.log(1e11), 3_500)
_MOST = 1e4
"""Degrees of freedom from which on the distribution is the normal one."""
_NORMAL = NormalDist()

Part = tuple[float, float]
"""A variance and its degrees of freedom."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What two agents' runs tell of the difference of their means."""

    difference: float
    interval: Interval | None
    """The 95 % interval; None if neither runs nor cases vary, or their variance is unknown."""
    p: float | None
    """Two-sided, of no difference; None with fewer than two repeats, or if the spread between runs is 0: equal repeats
    don't tell how far others would differ."""
    evidence: float
    """The p-value as a standard normal deviate, with the sign of the difference; 0 where it is unknown."""


UNDECIDED = Decision(math.nan, None, None, 0.0)
"""Where either agent has no returns."""


def decide(difference: float, of_runs: Sequence[Part], of_cases: Part, repeats: Sequence[int]) -> Decision:
    """Return the decision about a difference whose variance has parts over runs and a part over cases.

    The interval is midway between two constructions (``half_widths``), and the p-value is the level of the interval
    that just reaches 0, but at least ``separation_chance``: no few runs make a smaller one likely, whatever the
    distribution of returns.
    """
    of_runs = [part for part in of_runs if part[0] > 0]
    parts = [part for part in (of_cases, *of_runs) if part[0] > 0]
    if not parts or not math.isfinite(sum(variance for variance, _ in parts)):
        return Decision(difference, None, None, 0.0)
    levels = half_widths([variance for variance, _ in parts], [freedom for _, freedom in parts])
    reach = half_width_at(LEVEL, levels)
    interval = Interval(difference - reach, difference + reach)
    if not of_runs or min(repeats) < 2:  # noqa: PLR2004 - one repeat has no spread
        return Decision(difference, interval, None, 0.0)
    p = max(p_value(difference, levels), separation_chance(*repeats)) if difference else 1.0
    return Decision(difference, interval, p, math.copysign(deviate(p), difference))


def decide_samples(first: Sample, other: Sample) -> Decision:
    """Return the decision about the difference of two means on a task; cases that both played cancel out."""
    nothing = (ROUNDING * max(abs(first.mean), abs(other.mean))) ** 2
    of_runs = [
        (variance if variance > nothing else 0.0, freedom) for variance, freedom in (first.of_runs, other.of_runs)
    ]
    cases = min(block.returns.shape[1] for sample in (first, other) for block in sample.blocks)
    total, both = first.standard_error**2 + other.standard_error**2, paired_returns(first, other)
    if both is not None and cases > 1:
        total -= 2 * float(np.cov(both[0].mean(axis=0), both[1].mean(axis=0))[0, 1]) / cases
    of_cases = total - first.of_runs[0] - other.of_runs[0]
    part = of_cases if of_cases > nothing else 0.0, cases - 1.0
    return decide(first.mean - other.mean, of_runs, part, (len(first.runs), len(other.runs)))


def paired_returns(sample: Sample, other: Sample) -> tuple[Floats, Floats] | None:
    """Return both tables of returns where they are on the same cases."""
    if len(sample.blocks) != 1 or len(other.blocks) != 1 or sample.blocks[0].cases != other.blocks[0].cases:
        return None
    return sample.blocks[0].returns, other.blocks[0].returns


@dataclass(frozen=True, slots=True)
class JointDecision:
    """What the decisions on several independent tasks tell together."""

    evidence: float
    """A standard normal deviate if the agents are equal on every task; above 0 if the first is better."""
    p: float | None
    """Two-sided; None if it is unknown on every task."""


UNKNOWN = JointDecision(0.0, None)


def decide_jointly(tasks: Sequence[Decision]) -> JointDecision:
    """Return the decision over tasks of the same weight: the sum of their deviates over the root of their number.

    Source: Stouffer et al. 1949. A task's deviate is bounded by its number of repeats, so none decides for all; a
    single task has its own p-value. Where a p-value is unknown the deviate is 0.
    """
    if all(task.p is None for task in tasks):
        return UNKNOWN
    evidence = math.fsum(task.evidence for task in tasks) / math.sqrt(len(tasks))
    return JointDecision(evidence, two_sided(evidence))


def least_joint_p(repeats: Sequence[Sequence[int]]) -> float:
    """Return the smallest p-value that ``decide_jointly`` can have, from the repeats of both agents on each task."""
    return two_sided(math.fsum(deviate(separation_chance(*each)) for each in repeats) / math.sqrt(len(repeats)))


@cache
def separation_chance(*repeats: int) -> float:
    """Return the chance, at its largest, that no equal agent's runs differ from one another but those of two do.

    Of runs that either solve a task or don't, with a share q that do, that is the chance that each agent's runs are all
    alike, less that all runs are: for m and n runs q^m (1 - q)^n + q^n (1 - q)^m, which is 0.125 for two each, 0.031
    for three, 0.002 for five.
    """
    shares = np.linspace(0.0, 1.0, 1_001)
    alike = np.prod([shares**count + (1 - shares) ** count for count in repeats], axis=0)
    return float(np.max(alike - shares ** sum(repeats) - (1 - shares) ** sum(repeats)))


def deviate(p: float) -> float:
    """Return the standard normal deviate, 0 or more, of a two-sided p-value."""
    return -_NORMAL.inv_cdf(max(p, SMALLEST) / 2)


def two_sided(value: float) -> float:
    """Return the two-sided p-value of a standard normal deviate."""
    return 2 * _NORMAL.cdf(-abs(value))


def half_widths(variances: Sequence[float], freedoms: Sequence[float]) -> Floats:
    """Return the half-widths of an interval at each level of the table, from level 1 to the smallest.

    The construction is that of ``ranking.bootstrap.half_width``: midway between Student's at Satterthwaite's degrees of
    freedom and that of Banerjee (1960).
    """
    parts = [(variance, freedom) for variance, freedom in zip(variances, freedoms, strict=True) if freedom > 0]
    satterthwaite = quantiles(joint_freedom(variances, freedoms)) * math.sqrt(sum(variances))
    squares = [variance * quantiles(freedom) ** 2 for variance, freedom in parts]
    return np.asarray((satterthwaite + np.sqrt(np.sum(squares, axis=0))) / 2)


def half_width_at(level: float, table: Floats) -> float:
    """Return the half-width of the interval at a two-sided level such as 0.05."""
    return float(np.interp(-math.log(level), -_LOG_P, table))


def p_value(estimate: float, table: Floats) -> float:
    """Return the two-sided level of the interval that just reaches nothing."""
    return math.exp(float(np.interp(abs(estimate), table, _LOG_P)))


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Return p-values as Holm (1979) adjusts them: a family of any dependence has one false positive in 20 at 0.05.

    Unknown ones stay unknown, and are no part of the family.
    """
    known = sorted((p, at) for at, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p, at) in enumerate(known):
        largest = max(largest, min(1.0, (len(known) - rank) * p))
        adjusted[at] = largest
    return adjusted


def quantiles(freedom: float) -> Floats:
    """Return the quantiles of Student's distribution at each level of the table, two-sided."""
    return _quantiles(float(f"{min(max(freedom, 1.0), _MOST):.3g}"))


@lru_cache(4096)
def _quantiles(freedom: float) -> Floats:
    at = np.exp(_LOG_T)
    log_constant = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - math.log(freedom * math.pi) / 2
    density = np.exp(log_constant - (freedom + 1) / 2 * np.log1p(at**2 / freedom)) * at  # by the logarithm of t
    steps = (density[1:] + density[:-1]) / 2 * (_LOG_T[1] - _LOG_T[0])
    beyond = 2 * np.append(np.cumsum(steps[::-1])[::-1], 0.0)
    mask = beyond > SMALLEST / 10
    table = np.exp(np.interp(-_LOG_P, -np.log(np.minimum(beyond[mask], 1.0)), _LOG_T[mask]))
    table[0] = 0.0
    return np.asarray(table)
