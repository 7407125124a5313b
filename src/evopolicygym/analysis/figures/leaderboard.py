"""The leaderboard: rank scores with their intervals, best first, and the tiers of entries."""

from collections.abc import Iterator, Sequence

from evopolicygym.analysis.drawing.canvas import (
    SMALL,
    Axes,
    Figure,
    name_rows,
    new_figure,
    placeholder_figure,
    with_style,
)
from evopolicygym.analysis.drawing.figure import GREY, Drawing, entry_styles, short_names
from evopolicygym.analysis.published.score_tables import ANCHOR
from evopolicygym.analysis.ranking.leaderboard import Leaderboard, Standing
from evopolicygym.analysis.report_data import ReportData

TITLE = "Leaderboard"
MOST = 40
"""Entries that are shown, the best."""
OUTSIDE = 1.015
"""The position of the marks of tiers, as a share of the panel's width."""


@with_style
def draw(data: ReportData) -> Figure:
    """Return the figure."""
    board = data.board
    if board is None or not board.standings:
        return placeholder_figure(TITLE, "No entry has a finished run.")
    rows = [standing for standing in board.standings if standing.has_score][:MOST]
    figure = new_figure(TITLE, 1.0 + 0.24 * len(rows))
    axes = figure.subplots()
    look = entry_styles(data)
    for row, standing in enumerate(rows):
        own, score = look[standing.entry.label], standing.rank_score
        colour = GREY if standing.entry.kind == ANCHOR else own.colour
        if score.interval:
            axes.plot([score.interval.low, score.interval.high], [row, row], color=colour)
        face = "white" if standing.entry.is_shipped else colour
        axes.plot([score.value], [row], own.marker, color=colour, markerfacecolor=face, markersize=6)
    shown = short_names(standing.entry.label for standing in rows)
    name_rows(axes, [shown[standing.entry.label] + _coverage(board, standing) for standing in rows])
    axes.set_xlim(-0.03, 1.03)
    axes.set_xlabel(f"mean rank score over {_tasks(len(board.tasks))}, 1 is best (line: 95 % interval)")
    _mark_tiers(axes, rows)
    if len(board.standings) > MOST:
        axes.set_title(f"the best {MOST} of {len(board.standings)} entries")
    return figure


def _mark_tiers(axes: Axes, rows: Sequence[Standing]) -> None:
    """Draw a bracket for each tier; entries without a tier have none."""
    for tier, first, last in _tier_spans(rows):
        where = axes.get_yaxis_transform()
        axes.plot(
            [OUTSIDE, OUTSIDE], [first - 0.35, last + 0.35], transform=where, color=GREY, clip_on=False, linewidth=2
        )
        axes.text(
            OUTSIDE + 0.015, (first + last) / 2, f"tier {tier}", transform=where, va="center", fontsize=SMALL
        )  # fmt: skip


def _tier_spans(rows: Sequence[Standing]) -> Iterator[tuple[int, int, int]]:
    first = 0
    for row, standing in enumerate(rows):
        if row + 1 == len(rows) or rows[row + 1].tier != standing.tier:
            if standing.tier is not None:
                yield standing.tier, first, row
            first = row + 1


def _coverage(board: Leaderboard, standing: Standing) -> str:
    return "" if standing.complete else f" ({len(standing.tasks)}/{len(board.tasks)})"


def _tasks(count: int) -> str:
    return f"{count} tasks" if count > 1 else "one task"


FIGURE = Drawing(
    title=TITLE,
    caption="Each entry's mean rank score with its 95 % interval; entries of one tier can't be distinguished from "
    "its best, and hollow marks are entries that were not played here.",
    method="An entry's rank score on a task is (N - rank) / (N - 1) over N entries, averaged over tasks; intervals "
    "cover other repeats and other held-out cases, by a bootstrap over both.",
    draw=draw,
)
