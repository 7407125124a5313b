"""Each task's held-out means, with anchors and published scores as lines."""

import math
from collections.abc import Mapping, Sequence

from evopolicygym.analysis.drawing.canvas import (
    SMALL,
    Axes,
    Figure,
    Line2D,
    add_legend,
    all_finite,
    few_ticks,
    legend_key,
    name_rows,
    panels,
    placeholder_figure,
    with_style,
)
from evopolicygym.analysis.drawing.figure import (
    GREY,
    LINES,
    Drawing,
    EntryStyle,
    Line,
    entry_styles,
    short_names,
    shorten,
)
from evopolicygym.analysis.published.score_tables import ANCHOR
from evopolicygym.analysis.ranking.leaderboard import Standing
from evopolicygym.analysis.ranking.score_table import TaskRow
from evopolicygym.analysis.report_data import ReportData

TITLE = "Held-out mean return by task"
MOST, MOST_LINES = 15, len(LINES)
"""Played and published entries that are shown, the best."""
COLUMNS = 4
LONGEST = 20
RANDOM_LINE: Line = (0, (1, 1.5))
IDLE_LINE: Line = (0, (4, 2, 1, 2))


@with_style
def draw(data: ReportData) -> Figure:
    """Return the figure: a row for each entry that was played, or for each shipped one where none was."""
    board = data.board
    standings = [standing for standing in board.standings if standing.entry.kind != ANCHOR] if board else []
    played = [standing for standing in standings if not standing.entry.is_shipped]
    rows, lines = (
        (played, [standing for standing in standings if standing.entry.is_shipped]) if played else (standings, [])
    )
    rows, lines = rows[:MOST], lines[:MOST_LINES]
    if board is None or not rows:
        return placeholder_figure(TITLE, "No entry has a finished run.")
    figure, cells = panels(
        TITLE, [shorten(task.name, LONGEST) for task in board.tasks], columns=COLUMNS,
        height=0.65 + 0.19 * len(rows), sharey=True,
    )  # fmt: skip
    shown, called = (
        short_names((standing.entry.label for standing in rows), LONGEST),
        short_names(line.entry.label for line in lines),
    )
    look = entry_styles(data)
    anchor = next((standing for standing in board.standings if standing.entry.kind == ANCHOR), None)
    for axes, task in zip(cells, board.tasks, strict=True):
        _draw_lines(axes, task, anchor, lines, look)
        _draw_rows(axes, task, rows, look)
        name_rows(axes, [shown[standing.entry.label] for standing in rows])
        few_ticks(axes.xaxis, 3)
        axes.margins(x=0.08)
    keys = [Line2D([], [], color=GREY, linestyle=RANDOM_LINE, label="uniform random")] if anchor else []
    if any(task.idle for task in board.tasks):
        keys.append(Line2D([], [], color=GREY, linestyle=IDLE_LINE, label="idle action"))
    what = "mean return over held-out cases, more is better (line: ± standard error; small dots: repeats)"
    add_legend(
        figure, what, [*keys, *(_mark(look[standing.entry.label], called[standing.entry.label]) for standing in lines)]
    )
    return figure


def _mark(look: EntryStyle, name: str) -> Line2D:
    """Return the style of a published entry's line in the legend."""
    mark = legend_key(look, name)
    mark.set(markerfacecolor="white", linewidth=0.9)
    return mark


def _draw_lines(
    axes: Axes, task: TaskRow, anchor: Standing | None, lines: Sequence[Standing], look: Mapping[str, EntryStyle]
) -> None:
    if anchor and task.name in anchor.tasks and all_finite(mean := anchor.tasks[task.name].cell.mean):
        axes.axvline(mean, color=GREY, linestyle=RANDOM_LINE)
    if task.idle and all_finite(task.idle.mean):
        axes.axvline(task.idle.mean, color=GREY, linestyle=IDLE_LINE)
    for standing in lines:
        own = look[standing.entry.label]
        if task.name in standing.tasks and all_finite(mean := standing.tasks[task.name].cell.mean):
            axes.axvline(mean, color=own.colour, linestyle=own.line, linewidth=0.9)
            axes.plot(
                [mean], [0.0], own.marker, transform=axes.get_xaxis_transform(), clip_on=False, color=own.colour,
                markerfacecolor="white", zorder=4,
            )  # fmt: skip


def _draw_rows(axes: Axes, task: TaskRow, rows: Sequence[Standing], look: Mapping[str, EntryStyle]) -> None:
    for row, standing in enumerate(rows):
        if task.name not in standing.tasks:
            axes.text(
                0.5, row, "not played", transform=axes.get_yaxis_transform(), ha="center", va="center", fontsize=SMALL
            )
            continue
        cell, own = standing.tasks[task.name].cell, look[standing.entry.label]
        if not all_finite(cell.mean):
            axes.text(
                0.5, row, "no number", transform=axes.get_yaxis_transform(), ha="center", va="center", fontsize=SMALL
            )
            continue
        if cell.standard_error is not None and math.isfinite(cell.standard_error):
            reach = (cell.mean - cell.standard_error, cell.mean + cell.standard_error)
            axes.plot(reach, [row, row], color=own.colour, linewidth=1.8)
        repeats = [mean for mean in cell.sample.runs if math.isfinite(mean)] if cell.sample else []
        if len(repeats) > 1:
            axes.plot(repeats, [row + 0.28] * len(repeats), ".", color=own.colour, markersize=2.5, alpha=0.7)
        axes.plot([cell.mean], [row], own.marker, color=own.colour)


FIGURE = Drawing(
    title=TITLE,
    caption="On each task, each entry's held-out mean with its standard error beside uniform random, the idle action "
    "and the published entries; every panel has its own scale.",
    method="The mean over repeats of their means over held-out cases; the standard error covers other repeats and "
    "other cases. Published means, and shipped runs of other experiments, are of other cases.",
    draw=draw,
)
