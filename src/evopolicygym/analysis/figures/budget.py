"""The allocation of the budget: the episodes of each submission over the course of a run."""

from collections.abc import Sequence
from statistics import fmean

from evopolicygym.analysis.diagnostics.budget import BudgetUse
from evopolicygym.analysis.drawing.canvas import (
    Axes,
    Figure,
    FuncFormatter,
    Line2D,
    add_legend,
    number,
    panels,
    placeholder_figure,
    with_style,
)
from evopolicygym.analysis.drawing.figure import GREY, Drawing, EntryStyle, entry_styles, short_names
from evopolicygym.analysis.report_data import ReportData

TITLE = "Allocation of the budget"
MOST = 12
"""Entries that are shown, the best."""
COLUMNS = 3
LONGEST = 26
TENTHS = 10


@with_style
def draw(data: ReportData) -> Figure:
    """Return the figure."""
    uses = data.measured("budget")
    uses_by_entry = {label: [use for run, use in uses if run.result.agent == label] for label in data.labels}
    shown = {label: own for label, own in uses_by_entry.items() if any(use.submissions for use in own)}
    entries = list(shown)[:MOST]
    if not entries:
        return placeholder_figure(TITLE, "No run has a submission.")
    called, look = short_names(entries, LONGEST), entry_styles(data)
    figure, cells = panels(
        TITLE, [called[entry] for entry in entries], columns=COLUMNS, height=1.6, sharex=True, sharey=True
    )
    for axes, label in zip(cells, entries, strict=True):
        _draw_entry(axes, shown[label], look[label])
    keys = [
        Line2D([], [], linestyle="", marker="o", color=GREY, alpha=0.6, label="a submission"),
        Line2D([], [], linestyle="", marker="o", markerfacecolor="none", markersize=7, color="black", label="selected"),
        Line2D([], [], color="black", label="mean of each tenth of the budget"),
    ]
    add_legend(figure, "budget spent before the submission (%)", keys, side="episodes of the submission")
    return figure


def _draw_entry(axes: Axes, uses: Sequence[BudgetUse], look: EntryStyle) -> None:
    points = [
        (100 * (spending.spent - spending.episodes) / use.budget, spending.episodes, spending.is_selected)
        for use in uses
        for spending in use.submissions
    ]
    axes.plot(
        [x for x, _, _ in points], [y for _, y, _ in points], marker=look.marker, color=look.colour, alpha=0.45,
        markersize=3.5, markeredgewidth=0, linestyle="",
    )  # fmt: skip
    chosen = [(x, y) for x, y, is_selected in points if is_selected]
    axes.plot(
        [x for x, _ in chosen], [y for _, y in chosen], marker="o", markerfacecolor="none", markersize=7,
        color="black", markeredgewidth=0.8, linestyle="",
    )  # fmt: skip
    tenths = [[y for x, y, _ in points if tenth * 10 <= x < (tenth + 1) * 10] for tenth in range(TENTHS)]
    for tenth, episodes in enumerate(tenths):
        if episodes:
            axes.plot([10 * tenth, 10 * tenth + 10], [fmean(episodes)] * 2, color="black", linewidth=1.4, zorder=3)
    axes.set_yscale("log", base=2)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _at: number(value)))
    axes.set_xlim(-3, 103)
    axes.set_xticks([0, 25, 50, 75, 100])
    axes.tick_params(labelbottom=True)


FIGURE = Drawing(
    title=TITLE,
    caption="How many episodes each entry gave a submission, early and late in its budget, and where the selected "
    "checkpoint was submitted.",
    method="Every submission of every run is a mark at the share of its budget that was spent before it; lines are "
    "plain means over each tenth of the budget.",
    draw=draw,
    needs=("budget",),
)
