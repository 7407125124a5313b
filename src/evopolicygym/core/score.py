"""Scores: means with their standard errors, the selection of a checkpoint, ranks and norms across tasks."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its standard error."""

    mean: float
    standard_error: float | None
    """Sample standard deviation over the square root of ``count``; None if ``count`` is 1."""
    count: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """A submission that can be selected."""

    submit_index: int
    validation_mean: float


def estimate(values: Sequence[float]) -> Estimate:
    """Return mean and standard error of at least one value."""
    count = len(values)
    middle = total(values) / count
    if count == 1:
        return Estimate(middle, None, 1)
    variance = total([(value - middle) * (value - middle) for value in values]) / (count - 1)
    return Estimate(middle, math.sqrt(variance / count), count)


def total(values: Sequence[float]) -> float:
    """Return the sum of values, correctly rounded if it is finite."""
    try:
        return math.fsum(values)
    except (OverflowError, ValueError):
        return sum(values)


def mean(values: Iterable[float | None], add: Callable[[Sequence[float]], float] = total) -> float | None:
    """Return the mean of the values that are not None; None if there are none."""
    known = [value for value in values if value is not None]
    return add(known) / len(known) if known else None


def best_so_far(values: Iterable[float | None]) -> list[float | None]:
    """Return the running maximum; None until a value is known. NaN counts as unknown."""
    best: float | None = None
    maxima: list[float | None] = []
    for value in values:
        if value is not None and not math.isnan(value) and (best is None or value > best):
            best = value
        maxima.append(best)
    return maxima


def select(candidates: Iterable[Candidate]) -> Candidate | None:
    """Return the candidate with the best mean validation return, the latest among equals; None if there is none.

    NaN is worse than any number.
    """
    return max(candidates, key=_merit, default=None)


def _merit(candidate: Candidate) -> tuple[bool, float, int]:
    return *nan_last_key(candidate.validation_mean), candidate.submit_index


def nan_last_key(value: float) -> tuple[bool, float]:
    """Return a sort key by which NaN is less than any number, including minus infinity."""
    return (False, 0.0) if math.isnan(value) else (True, value)


def rank_scores(scores: Mapping[str, float]) -> dict[str, float]:
    """Return each entry's rank score on one task: ``(N - r) / (N - 1)``, ``r`` = 1 + entries strictly better.

    Ties share the better rank; a single entry scores 1. Source: arXiv 2607.02440, section on aggregation.
    """
    entries = len(scores)
    if entries == 1:
        return dict.fromkeys(scores, 1.0)
    return {name: (entries - rank(scores, name)) / (entries - 1) for name in scores}


def rank(scores: Mapping[str, float], name: str) -> int:
    """Return 1 + the number of entries strictly better than ``name``; NaN is worse than any number."""
    own = nan_last_key(scores[name])
    return 1 + sum(nan_last_key(other) > own for other in scores.values())


def normalised(score: float, random: float, best: float) -> float:
    """Return ``(score - random) / (best - random)``, clipped to [0, 1]; 0 if best is not better than random."""
    if best <= random:
        return 0.0
    return min(1.0, max(0.0, (score - random) / (best - random)))
