"""The mean of paired differences over groups, with its variance over repeats and over held-out cases.

A group is an agent on an environment; its differences are a table of repeats by cases. Groups and their weights are
fixed, repeats and cases are drawn: agents of an environment share cases, environments don't.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from evopolicygym.analysis.ranking.bootstrap import ROUNDING, Floats, Interval, joint_freedom
from evopolicygym.analysis.ranking.decision import decide


class Spread(StrEnum):
    """The source of the uncertainty of a mean."""

    REPEATS = "repeats"
    AGENTS = "agents"
    """There is one repeat each: an environment's agents serve as repeats, and their differences widen the interval."""
    ENVIRONMENTS = "environments"
    """There is one repeat of one agent each: environments serve as repeats."""
    CASES = "cases"
    """There is a single run each, or all repeats are equal: the interval covers the choice of cases only, and there is
    no p-value."""
    NOTHING = "nothing"
    """All values are equal, or there is a single case of a single run."""


@dataclass(frozen=True, slots=True)
class MeasuredGroup:
    """The values of an agent on an environment."""

    environment: str
    values: Floats
    """Repeats by cases."""


@dataclass(frozen=True, slots=True)
class MeanEstimate:
    """A mean over groups: the plain mean over environments of the plain means over their agents."""

    value: float
    interval: Interval | None
    """The 95 % interval; None if it is not known."""
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
    nothing = (ROUNDING * max(float(np.abs(group.values).max()) for group in groups)) ** 2
    of_rows, of_cases = (
        (variance if variance > nothing else 0.0, freedom) for variance, freedom in (_of_rows(units), _of_cases(units))
    )
    rows = sum(unit.rows for unit in units)
    decision = decide(value, [of_rows], of_cases, (rows, rows) if spread is not Spread.CASES else (1, 1))
    if decision.interval is None:
        spread = Spread.NOTHING
    elif not of_rows[0] > 0:
        spread = Spread.CASES
    return MeanEstimate(value, decision.interval, decision.p, spread)


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
    """Return the part of the variance between cases' means that the variance of runs already includes."""
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
