"""Learning curves by family of tasks: each entry's share of its own improvement over time, averaged over runs."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from evopolicygym.analysis.diagnostics.learning_curve import LearningCurve
from evopolicygym.analysis.drawing.canvas import (
    Axes,
    Figure,
    add_legend,
    all_finite,
    band,
    draw_band,
    few_ticks,
    legend_key,
    panels,
    placeholder_figure,
    with_style,
)
from evopolicygym.analysis.drawing.figure import Drawing, EntryStyle, entry_styles, short_names, shorten
from evopolicygym.analysis.report_data import ReportData
from evopolicygym.core.score import normalised

TITLE = "Learning curves by family"
MOST = 8
"""Entries that are drawn, the best."""
COLUMNS = 2
LONGEST = 24
WHOLE = 100
"""Per cent."""


@with_style
def draw(data: ReportData) -> Figure:
    """Return the figure."""
    families: dict[str, dict[str, list[LearningCurve]]] = defaultdict(lambda: defaultdict(list))
    for run, curve in data.measured("learning_curve"):
        if all_finite(curve.baseline, curve.final) and curve.final > curve.baseline:
            families[run.result.family][run.result.agent].append(curve)
    if not families:
        return placeholder_figure(TITLE, "No run has improved.")
    entries = [label for label in data.labels if any(label in by_entry for by_entry in families.values())][:MOST]
    look, shown = entry_styles(data), short_names(entries)
    figure, cells = panels(
        TITLE, [shorten(family, LONGEST) for family in sorted(families)], columns=COLUMNS, height=1.9
    )
    for axes, family in zip(cells, sorted(families), strict=True):
        _draw_family(axes, {entry: families[family][entry] for entry in entries if entry in families[family]}, look)
    add_legend(
        figure,
        "budget spent (%)",
        [legend_key(look[entry], shown[entry]) for entry in entries],
        side="share of its improvement (%)",
    )
    return figure


def _draw_family(axes: Axes, by_entry: Mapping[str, Sequence[LearningCurve]], look: Mapping[str, EntryStyle]) -> None:
    for label, curves in by_entry.items():
        whole = band([_heights(curve) for curve in curves], WHOLE)
        if whole is not None:
            draw_band(axes, whole, look[label], repeats=len(curves))
    axes.set_xlim(0, WHOLE)
    axes.set_ylim(-3, WHOLE + 3)
    few_ticks(axes.xaxis, 5, whole=True)
    few_ticks(axes.yaxis, 4, whole=True)


def _heights(curve: LearningCurve) -> list[tuple[int, float | None]]:
    """Return a curve from its baseline to its end, both in per cent."""
    baseline, final = curve.baseline or 0.0, curve.final or 0.0
    points = [
        (round(WHOLE * point.spent / curve.budget), WHOLE * normalised(point.best, baseline, final))
        for point in curve.points
        if point.best is not None
    ]
    return [(0, 0.0), *points]


FIGURE = Drawing(
    title=TITLE,
    caption="How soon each entry had what it gained in the end: the part of its improvement that was there, averaged "
    "over the runs on tasks of a family, with a band from the lowest to the highest run.",
    method="0 is the random anchor, or the first candidate where none is known; 100 is each run's own best on "
    "validation, so a curve says how soon and not how good. Runs that never improved are left out.",
    draw=draw,
    needs=("learning_curve",),
)
