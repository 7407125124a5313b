"""The mean of paired differences over groups, with its variance over repeats and over held-out cases.

A group is an agent on an environment; its differences are a table of repeats by cases. Groups and their weights are
fixed, repeats and cases are drawn: agents of an environment share cases, environments don't.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

import numpy as np

from evopolicygym.analysis.ranking.bootstrap import Floats, Interval, joint_freedom

SMALLEST = 1e-9
"""The smallest p-value that is distinguished from nothing."""
_LOG_P = np.linspace(0.0, math.log(SMALLEST), 400)
_LOG_T = np.linspace(math.log(1e-4), math.log(1e11), 3_500)
_MOST = 1e4
"""Degrees of freedom from which on the distribution is the normal one."""


def reaches(variances: Sequence[float], freedoms: Sequence[float]) -> Floats:
    """Return how far an interval reaches to both sides at each level of the table, from level 1 to the smallest.

    The construction is that of ``ranking.bootstrap.half_width``: midway between Student's at Satterthwaite's degrees of
    freedom and that of Banerjee (1960).
    """
    parts = [(variance, freedom) for variance, freedom in zip(variances, freedoms, strict=True) if freedom > 0]
    satterthwaite = quantiles(joint_freedom(variances, freedoms)) * math.sqrt(sum(variances))
    squares = [variance * quantiles(freedom) ** 2 for variance, freedom in parts]
    return np.asarray((satterthwaite + np.sqrt(np.sum(squares, axis=0))) / 2)


def reach_at(level: float, table: Floats) -> float:
    """Return how far the interval reaches whose two-sided level is, say, 0.05."""
    return float(np.interp(-math.log(level), -_LOG_P, table))


def p_value(estimate: float, table: Floats) -> float:
    """Return the two-sided level of the interval that just reaches nothing."""
    return math.exp(float(np.interp(abs(estimate), table, _LOG_P)))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values as Holm (1979) adjusts them: a family of any dependence has one false positive in 20 at 0.05."""
    order = sorted(range(len(p_values)), key=lambda at: p_values[at])
    adjusted, largest = [0.0] * len(p_values), 0.0
    for place, at in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - place) * p_values[at]))
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
    seen = beyond > SMALLEST / 10
    found = np.exp(np.interp(-_LOG_P, -np.log(np.minimum(beyond[seen], 1.0)), _LOG_T[seen]))
    found[0] = 0.0
    return np.asarray(found)


LEVEL = 0.05


class Spread(StrEnum):
    """From what it is known how far a mean may be off."""

    REPEATS = "repeats"
    AGENTS = "agents"
    """There is one repeat each: an environment's agents stand for repeats, and how they differ widens the interval."""
    ENVIRONMENTS = "environments"
    """There is one repeat of one agent each: environments stand for repeats."""
    CASES = "cases"
    """There is a single run each: the interval is about the choice of cases only, and nothing is decided."""
    NOTHING = "nothing"
    """All that was measured is the same, or there is a single case of a single run."""


@dataclass(frozen=True, slots=True)
class MeasuredGroup:
    """What was measured of one agent on one environment."""

    environment: str
    values: Floats
    """Repeats by cases."""


@dataclass(frozen=True, slots=True)
class MeanEstimate:
    """A mean over groups: the plain mean over environments of the plain means over their agents."""

    value: float
    interval: Interval | None
    """Of 95 %; None where nothing is known of it."""
    p: float | None
    """Two-sided, of the mean being 0; None below two repeats of anything."""
    spread: Spread


@dataclass(frozen=True, slots=True)
class _Unit:
    environment: str
    weight: float
    values: Floats

    @property
    def rows(self) -> int:
        return len(self.values)


def mean_estimate(groups: Sequence[MeasuredGroup]) -> MeanEstimate:
    """Return the mean over groups, at least one, with its 95 % interval and p-value."""
    spread, units = _units(groups)
    value = float(sum(unit.weight * unit.values.mean() for unit in units))
    parts = [_of_rows(units), _of_cases(units)]
    if not any(variance > 0 for variance, _ in parts):
        return MeanEstimate(value, None, None, Spread.NOTHING)
    table = reaches([variance for variance, _ in parts], [freedom for _, freedom in parts])
    reach = reach_at(LEVEL, table)
    decided = spread is not Spread.CASES
    return MeanEstimate(
        value, Interval(value - reach, value + reach), p_value(value, table) if decided else None, spread
    )


def _units(groups: Sequence[MeasuredGroup]) -> tuple[Spread, list[_Unit]]:
    """Return the units whose rows are the repeats that are there: runs, else agents, else environments."""
    below: dict[str, list[Floats]] = defaultdict(list)
    for group in groups:
        below[group.environment].append(group.values)
    share = 1 / len(below)
    if any(len(group.values) > 1 for group in groups):
        units = [_Unit(name, share / len(each), values) for name, each in below.items() for values in each]
        return Spread.REPEATS, units
    if any(len(each) > 1 for each in below.values()):
        return Spread.AGENTS, [_Unit(name, share, np.concatenate(each)) for name, each in below.items()]
    if len(below) > 1:
        means = np.array([[each[0].mean()] for each in below.values()])
        return Spread.ENVIRONMENTS, [_Unit("", 1.0, means)]
    return Spread.CASES, [_Unit(name, share, each[0]) for name, each in below.items()]


def _of_rows(units: Sequence[_Unit]) -> tuple[float, float]:
    """Return the mean's variance over repeats, and its degrees of freedom.

    A unit with one repeat has the mean variance of the others, weighted by their degrees of freedom.
    """
    repeated = [unit for unit in units if unit.rows > 1]
    alone = sum(unit.weight**2 for unit in units if unit.rows == 1)
    freedoms = [unit.rows - 1.0 for unit in repeated]
    parts = [
        (unit.weight**2 / unit.rows + alone * freedom / sum(freedoms)) * float(unit.values.mean(axis=1).var(ddof=1))
        for unit, freedom in zip(repeated, freedoms, strict=True)
    ]
    return (sum(parts), pooled_freedom(parts, freedoms)) if parts else (0.0, 0.0)


def _of_cases(units: Sequence[_Unit]) -> tuple[float, float]:
    """Return the mean's variance over held-out cases, and its degrees of freedom."""
    parts, freedoms = [], []
    for name in dict.fromkeys(unit.environment for unit in units):
        here = [unit for unit in units if unit.environment == name]
        cases = here[0].values.shape[1]
        if cases > 1:
            each = [unit.weight * (unit.values.mean(axis=0) - unit.values.mean()) for unit in here]
            total = float(np.square(np.sum(each, axis=0)).sum()) / (cases - 1)
            parts.append(max(0.0, total - sum(_of_runs_on_cases(unit) for unit in here)) / cases)
            freedoms.append(cases - 1.0)
    return (sum(parts), pooled_freedom(parts, freedoms)) if parts else (0.0, 0.0)


def _of_runs_on_cases(unit: _Unit) -> float:
    """Return what of the variance between cases' means is of runs on cases, which the runs' variance has already."""
    if unit.rows == 1:
        return 0.0
    means = unit.values.mean(axis=1, keepdims=True)
    rest = unit.values - means - unit.values.mean(axis=0) + unit.values.mean()
    freedom = (unit.rows - 1) * (unit.values.shape[1] - 1)
    variance = float(np.square(rest).sum()) / freedom
    return float(unit.weight**2 * variance / unit.rows)


def pooled_freedom(variances: Sequence[float], freedoms: Sequence[float]) -> float:
    """Return the degrees of freedom of a sum of parts that may be known from two repeats each.

    Satterthwaite's are too few for many such parts, as estimated variances differ more than true ones; Welch's (1947),
    with two added to each part's and taken from the sum's, are too many for some. The mean of both is taken.
    """
    most = float(sum(freedoms))
    if not sum(variances) > 0:
        return most
    welch = joint_freedom(variances, [freedom + 2 for freedom in freedoms]) - 2
    return (joint_freedom(variances, freedoms) + min(max(welch, min(freedoms)), most)) / 2
