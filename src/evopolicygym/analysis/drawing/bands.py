"""Curves of repeats as one: their mean and the band between the lowest and the highest, step by step."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from evopolicygym.analysis.drawing.canvas import Axes
from evopolicygym.analysis.drawing.looks import Look
from evopolicygym.analysis.ranking.bootstrap import Floats

Point = tuple[float, float | None]
"""A place, and what holds from there to the next point; None where nothing is known yet."""


@dataclass(frozen=True, slots=True)
class Band:
    """Several step functions as one; not a number where one of them isn't known."""

    at: Floats
    mean: Floats
    low: Floats
    high: Floats


def band(curves: Iterable[Sequence[Point]], end: float) -> Band | None:
    """Return the band of some curves, each of which holds to the end; None where there is nowhere all are known."""
    known = [[(at, value) for at, value in curve if value is not None and math.isfinite(value)] for curve in curves]
    if not known or not all(known):
        return None
    grid = np.array(sorted({at for curve in known for at, _ in curve if at <= end} | {end}), dtype=float)
    values = np.array([_held(curve, grid) for curve in known])
    return Band(grid, values.mean(axis=0), values.min(axis=0), values.max(axis=0))


def _held(curve: Sequence[tuple[float, float]], grid: Floats) -> Floats:
    places, values = np.array([at for at, _ in curve]), np.array([value for _, value in curve])
    before = np.searchsorted(places, grid, side="right") - 1
    return np.where(before >= 0, values[before], np.nan)


def draw_band(axes: Axes, found: Band, look: Look, *, repeats: int) -> None:
    """Draw a band in an entry's look; of one repeat there is a line only."""
    axes.plot(
        found.at, found.mean, drawstyle="steps-post", color=look.colour, linestyle=look.line, marker=look.marker,
        markevery=max(1, len(found.at) // 4), markersize=3.5,
    )  # fmt: skip
    if repeats > 1:
        axes.fill_between(
            found.at, found.low, found.high, step="post", color=look.colour, alpha=0.15, linewidth=0, zorder=1
        )
