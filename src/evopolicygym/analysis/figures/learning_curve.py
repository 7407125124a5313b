"""Learning curves: the best validation so far against the episodes spent, task by task."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from evopolicygym.analysis.drawing.canvas import (
    Axes,
    Figure,
    Line2D,
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
from evopolicygym.analysis.drawing.figure import GREY, Drawing, EntryStyle, Line, entry_styles, short_names, shorten
from evopolicygym.analysis.report_data import ReportData

TITLE = "Learning curves"
MOST = 8
"""Entries that are drawn, the best."""
COLUMNS = 4
LONGEST = 20
RANDOM_LINE: Line = (0, (1, 1.5))
BEST_LINE: Line = (0, (6, 2))


@with_style
def draw(data: ReportData) -> Figure:
    """Return the figure."""
    curves = data.by_task_and_entry("learning_curve")
    if not curves:
        return placeholder_figure(TITLE, "No run has a learning curve.")
    entries = data.labels[:MOST]
    look, shown = entry_styles(data), short_names(entries)
    figure, cells = panels(
        TITLE,
        [shorten(task, LONGEST) for task in curves],
        columns=COLUMNS,
        height=1.55,
    )
    lines: dict[str, Line2D] = {}
    for axes, (task, by_entry) in zip(cells, curves.items(), strict=True):
        lines |= _draw_ends(axes, data, task)
        _draw_task(axes, {entry: by_entry[entry] for entry in entries if entry in by_entry}, look)
    add_legend(
        figure,
        "train episodes spent",
        [*(legend_key(look[entry], shown[entry]) for entry in entries), *lines.values()],
        side="best validation mean",
    )
    if len(data.labels) > MOST:
        figure.suptitle(f"{TITLE} (the best {MOST} of {len(data.labels)} entries)", x=0.01, ha="left")
    return figure


def _draw_task(axes: Axes, by_entry: Mapping[str, Sequence[Any]], look: Mapping[str, EntryStyle]) -> None:
    end = max((curve.budget for curves in by_entry.values() for curve in curves), default=1)
    for label, curves in by_entry.items():
        points = [[(point.spent, point.best) for point in curve.points] for curve in curves]
        whole = band(points, end)
        if whole is not None:
            draw_band(axes, whole, look[label], repeats=len(curves))
    axes.set_xlim(0, end)
    few_ticks(axes.xaxis, 4, whole=True)
    few_ticks(axes.yaxis, 4)
    axes.margins(y=0.08)


def _draw_ends(axes: Axes, data: ReportData, task: str) -> dict[str, Line2D]:
    """Draw uniform random and the best that was published, where they are known, and return their keys."""
    anchors = (run.result.random_anchor for run in data.runs if run.result.task == task)
    random = next((anchor.mean for anchor in anchors if anchor), None)
    standings = data.board.standings if data.board else ()
    published = [
        standing.tasks[task].cell.mean for standing in standings
        if standing.entry.kind == "agent" and standing.entry.is_shipped
        and task in standing.tasks
    ]  # fmt: skip
    best = max((mean for mean in published if math.isfinite(mean)), default=None)
    ends: list[tuple[str, float | None, Line]] = [
        ("uniform random", random, RANDOM_LINE), ("best published (held-out)", best, BEST_LINE)
    ]  # fmt: skip
    drawn: dict[str, Line2D] = {}
    for name, value, line in ends:
        if all_finite(value):
            axes.axhline(value or 0.0, color=GREY, linestyle=line, linewidth=1.0)
            drawn[name] = Line2D([], [], color=GREY, linestyle=line, linewidth=1.0, label=name)
    return drawn


FIGURE = Drawing(
    title=TITLE,
    caption="How soon each entry improved: the best validation mean so far, averaged over repeats, with a band from "
    "the lowest to the highest repeat. Curves are running maxima of noisy means: they rise by luck too.",
    method="A submission counts from the moment when its last episode is charged, by its checkpoint's mean over the "
    "hidden validation cases; the mean begins where every repeat has a candidate.",
    draw=draw,
    needs=("learning_curve",),
)
