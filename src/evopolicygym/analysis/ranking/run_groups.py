"""Runs that fall into two groups, as those of an agent that solves a task or doesn't: the rule, and the interval."""

import math
from dataclasses import dataclass

import numpy as np

from evopolicygym.analysis.ranking.bootstrap import Floats, Interval, share_interval

CHANCE = 0.01
"""The chance that runs with a normal distribution are said to fall into two groups."""
LEAST_RATIOS = {
    3: 37_600.0, 4: 347.0, 5: 73.3, 6: 33.3, 7: 20.7, 8: 14.9, 9: 11.9, 10: 9.98, 12: 7.79, 15: 6.18, 20: 4.89,
    30: 3.86, 50: 3.13,
}  # fmt: skip
"""The ratio that normal runs exceed with ``CHANCE``, by the number of runs; from 600,000 draws of each."""
WIDTH = 0.25
"""The half-width, as a share of the distance of both groups, that ``RunGroups.repeats_needed`` is for."""


@dataclass(frozen=True, slots=True)
class RunGroups:
    """Two groups of an agent's runs on a task."""

    low: float
    """The mean of the lower runs."""
    high: float
    low_runs: int
    high_runs: int
    within: float
    """The standard deviation of runs within their groups; 0 for three runs."""

    @property
    def share_high(self) -> float:
        """The share of runs in the higher group."""
        return self.high_runs / (self.low_runs + self.high_runs)

    @property
    def repeats_needed(self) -> int:
        """The runs with which an interval at this share reaches a quarter of the groups' distance to either side."""
        return next(
            count
            for count in range(self.low_runs + self.high_runs, 10_000)
            if (ends := share_interval(self.share_high, count)).high - ends.low <= 2 * WIDTH
        )

    def interval(self, of_cases: float) -> Interval:
        """Return the interval of the mean, whose half-width over cases alone is given.

        Which group another run falls in is a trial: the share of the higher group has Clopper and Pearson's (1934)
        interval, and the mean lies as far between the groups. Variance within groups and over cases are added to each
        side's distance as squares (Zou and Donner 2008).
        """
        count = self.low_runs + self.high_runs
        ends, apart = share_interval(self.share_high, count), self.high - self.low
        mean, further = self.low + apart * self.share_high, math.hypot(2 * self.within / math.sqrt(count), of_cases)
        return Interval(
            mean - math.hypot(apart * (self.share_high - ends.low), further),
            mean + math.hypot(apart * (ends.high - self.share_high), further),
        )


def find_groups(runs: Floats) -> RunGroups | None:
    """Return the two groups that run means fall into; None where they may as well have one normal distribution.

    Of all divisions of the sorted means into two, the one with the largest sum of squares between groups is taken. They
    are groups if the ratio of the sums of squares between and within exceeds what 1 % of normal samples reach: the test
    for clusters of Engelman and Hartigan (1969), with quantiles by simulation. Fewer than three runs have no shape.
    """
    count, ordered = len(runs), np.sort(runs)
    if count < min(LEAST_RATIOS) or not np.isfinite(runs).all() or ordered[0] == ordered[-1]:
        return None
    sizes = np.arange(1, count)
    sums = np.cumsum(ordered - ordered.mean())[:-1]  # those above have the same with the other sign
    between = sums**2 * (1 / sizes + 1 / (count - sizes))
    at = int(np.argmax(between)) + 1
    low, high = ordered[:at], ordered[at:]
    within = float(np.square(low - low.mean()).sum() + np.square(high - high.mean()).sum())
    if within * least_ratio(count) >= between[at - 1]:
        return None
    spread = math.sqrt(within / (count - 2)) if count > 3 else 0.0  # noqa: PLR2004 - a group of two and one of one
    return RunGroups(float(low.mean()), float(high.mean()), at, count - at, spread)


def least_ratio(count: int) -> float:
    """Return the ratio between the sums of squares from which on runs are in groups; that of fewer runs in between."""
    return LEAST_RATIOS[max(known for known in LEAST_RATIOS if known <= count)]
