"""By how much one checkpoint is better than another on the same hidden cases, and whether that is beyond noise.

Both played every validation case, so that cases cancel out: what counts are the differences, case by case. A gain is
*real* where both of two tests at 5 % say so, each of which is wrong by itself: the lower end of Student's one-sided
95 % interval of the mean difference lies above 0, which fails where a few cases differ by the same; and no more than
5 % of all ways to flip the differences' signs have a mean as high (Fisher's randomisation test), which no number of
differing cases below five can pass. One case alone never shows a gain.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evopolicygym.analysis.ranking.bootstrap import Floats, Interval, t_quantile
from evopolicygym.core.score import estimate

LEVEL = 0.05
"""Of both tests; the interval that is shown has 90 %, so that its lower end is the one-sided one of 95 %."""
MOST_EXACT = 28
"""With more differing cases, flips are drawn."""
DRAWN = 20_000
ROUNDING = 1e-9
"""Of a mean's size: means of flipped signs that differ by less are the same."""


@dataclass(frozen=True, slots=True)
class Gain:
    """How much better one checkpoint is than another."""

    mean: float
    """Of the differences over cases."""
    interval: Interval | None
    """The two-sided 90 % interval of the mean; None where one case tells nothing of it."""
    p_value: float
    """Share of sign flips whose mean is as high."""
    cases: int

    @property
    def is_real(self) -> bool:
        """Whether it is above 0 beyond noise."""
        return self.interval is not None and self.interval.low > 0 and self.p_value <= LEVEL


def gain(before: Sequence[float], after: Sequence[float]) -> Gain | None:
    """Return the gain from one checkpoint's returns to another's on the same cases; None where one is no number."""
    with np.errstate(invalid="ignore", over="ignore"):
        differences = np.subtract(after, before, dtype=float)
    if not len(differences) or not np.isfinite(differences).all():
        return None
    found = estimate(differences.tolist())
    reach = (
        None if found.standard_error is None else t_quantile(len(differences) - 1, 1 - 2 * LEVEL) * found.standard_error
    )
    interval = None if reach is None else Interval(found.mean - reach, found.mean + reach)
    return Gain(found.mean, interval, _p_value(differences), len(differences))


def _p_value(differences: Floats) -> float:
    """Return the share of sign flips of the differences whose sum is at least theirs; a case without one can't flip."""
    sizes = np.abs(differences[differences != 0])
    if not sizes.size:
        return 1.0
    due = math.fsum(differences.tolist()) - ROUNDING * float(sizes.sum())
    if sizes.size <= MOST_EXACT:
        return float(_sums_at_least(due, sizes) / 2**sizes.size)
    flips = np.random.default_rng(0).integers(0, 2, (DRAWN, sizes.size))
    return float(1 + np.count_nonzero((2 * flips - 1) @ sizes >= due)) / (DRAWN + 1)


def _sums_at_least(due: float, sizes: Floats) -> int:
    """Return how many of all sums of sizes with either sign are so high: each is one of either half's sums."""
    halves = [_signed_sums(half) for half in np.array_split(sizes, 2)]
    one, other = halves[0], np.sort(halves[1])
    return int((len(other) - np.searchsorted(other, due - one, side="left")).sum())


def _signed_sums(sizes: Floats) -> Floats:
    """Return all sums of sizes with either sign."""
    sums = np.zeros(1)
    for size in sizes:
        sums = np.concatenate([sums - size, sums + size])
    return sums
