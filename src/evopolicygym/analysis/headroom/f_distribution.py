"""Fisher's F distribution: how probable a ratio of two variances is that is larger than one that was found."""

import math
from functools import cache

import numpy as np

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
