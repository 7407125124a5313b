"""The normalised scale of a task: which scores of a table are its 0 and its 1."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from evopolicygym.analysis.published.score_tables import AGENT
from evopolicygym.analysis.ranking.known_scale import exceeds
from evopolicygym.analysis.ranking.score_table import Entry, ScoreTable
from evopolicygym.core.score import normalised

BEST, KNOWN = "best", "known"
"""Normalisation by the table's best agent, and by the best known score."""


def ranked_among(table: ScoreTable, *, partial: bool) -> dict[str, bool]:
    """Return which entries count in the others' ranks: complete ones and the anchor, or all where none is complete."""
    full = {entry.label: len(entry.cells) == len(table.tasks) for entry in table.entries}
    alone = not any(full[entry.label] for entry in table.entries if entry is not table.anchor)
    return {entry.label: partial or alone or full[entry.label] or entry is table.anchor for entry in table.entries}


@dataclass(frozen=True, slots=True)
class TaskScale:
    """The ends of the normalised scale of a task."""

    low: float
    """Uniform random's mean; on the known scale the better one of random and idle play."""
    best: float
    """Above ``low``."""
    of: tuple[Entry, ...]
    """The entries whose best it is; none on the known scale."""
    is_clipped: bool = True
    """Whether scores below 0 and above 1 count as 0 and 1."""

    def value(self, mean: float) -> float:
        """Return a normalised score."""
        if self.is_clipped:
            return normalised(_number(mean), self.low, self.best)
        return (_number(mean) - self.low) / (self.best - self.low)


def scale_on(table: ScoreTable, task: str, counts: Mapping[str, bool], kind: str = AGENT) -> TaskScale | None:
    """Return the scale of a task: up to the best of the agents that count, or of all entries of another kind.

    ``kind`` may also be ``best``, for agents, or ``known``, for the scale that no table changes. ``counts`` comes from
    ``ranked_among``; if none of its agents is above uniform random, all agents of the task count. None without uniform
    random, or if no agent is above it by more than noise (``exceeds``): a distance that is chance is no scale.
    """
    if kind == KNOWN:
        known = next((row.known for row in table.tasks if row.name == task), None)
        return TaskScale(known.low, known.best, (), is_clipped=False) if known else None
    kind = AGENT if kind == BEST else kind
    if table.anchor is None or task not in table.anchor.cells:
        return None
    random = table.anchor.cells[task]
    entries = tuple(entry for entry in table.entries if entry.kind == kind and task in entry.cells)
    counted = tuple(entry for entry in entries if counts[entry.label])
    for among in (counted, entries) if kind == AGENT else (entries,):
        best = max((entry.cells[task] for entry in among), key=lambda cell: _number(cell.mean), default=random)
        if exceeds((best.mean, best.standard_error), (random.mean, random.standard_error)):
            return TaskScale(random.mean, best.mean, among)
    return None


def _number(mean: float) -> float:
    """Return a mean, or minus infinity for no number."""
    return -math.inf if math.isnan(mean) else mean
