"""Whether a task still distinguishes agents: the verdict on how entries differ and on how many are at the best."""

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum

from evopolicygym.analysis.headroom.spread import EntrySpread

LEVEL = 0.05
"""Of Holm's p-values, from which on downward entries are said to differ."""
FEWEST = 3
"""Entries with runs, below which nothing is said of a task: two differ or don't, whatever the task."""
HALF = 0.5
"""The share of runs at the best known score from which on a task is nearly spent, or spent."""
EQUAL = 0.1
"""The share of the scale that the standard deviation of true means may have at most where a task is spent."""


class HeadroomVerdict(StrEnum):
    """What a task, or a suite, is worth for distinguishing agents."""

    DISTINGUISHES = "distinguishes agents"
    """Entries differ by more than noise, and most runs are below the best known score."""
    NEARLY_SPENT = "nearly spent"
    """Entries differ by more than noise, but at least half of the runs are at the best known score."""
    SPENT = "spent"
    """Entries are equal as far as noise shows, and at least half of the runs are at the best known score."""
    IN_PART = "distinguishes agents in part"
    """Of tasks together: some distinguish agents, and more of the others are too hard or noisy than are spent."""
    TOO_HARD_OR_NOISY = "too hard or noisy"
    """Entries don't differ by more than noise, but they may differ, or most runs are below the best known score."""
    TOO_FEW_ENTRIES = "unknown (too few entries)"
    ONE_RUN_EACH = "unknown (one run each)"
    """Runs differ by more than cases explain; whether entries do, or a second run of each would, is not known."""

    @property
    def is_known(self) -> bool:
        """Whether anything can be said."""
        return self not in {HeadroomVerdict.TOO_FEW_ENTRIES, HeadroomVerdict.ONE_RUN_EACH}


def verdict_of(
    spread: EntrySpread | None, p: float | None, at_best: float | None, scale: float | None
) -> HeadroomVerdict:
    """Return the verdict on a task.

    ``p`` is Holm's, ``at_best`` the share of runs at the best known score, ``scale`` the distance from uniform random
    to the best score; None where it isn't known.
    """
    if spread is None or p is None or spread.entries < FEWEST:
        return HeadroomVerdict.TOO_FEW_ENTRIES
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
    known = sum(count for one, count in counts.items() if one.is_known)
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
