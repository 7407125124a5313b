"""Student's distribution as a table: two-sided probabilities, and how far an interval reaches at each of them."""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from evopolicygym.analysis.ranking.bootstrap import Floats, joint_freedom

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
