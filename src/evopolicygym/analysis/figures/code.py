"""The size of policies as programs over a run: lines, functions and branches."""

from collections.abc import Iterator

from evopolicygym.analysis.diagnostics.budget import BudgetUse
from evopolicygym.analysis.diagnostics.code import Code
from evopolicygym.analysis.drawing.canvas import (
    Figure,
    Point,
    add_legend,
    band,
    draw_band,
    few_ticks,
    legend_key,
    panels,
    placeholder_figure,
    with_style,
)
from evopolicygym.analysis.drawing.figure import Drawing, entry_styles, short_names
from evopolicygym.analysis.report_data import ReportData

TITLE = "Code over time"
MOST = 8
"""Entries that are drawn, the best."""
COUNTED = {"lines": "lines that are not blank", "functions": "functions", "branches": "branches"}


@with_style
def draw(data: ReportData) -> Figure:
    """Return the figure."""
    runs = [
        (run.result.agent, code, run.measured["budget"])
        for run, code in data.measured("code")
        if "budget" in run.measured and any(code.submissions)
    ]
    entries = [label for label in data.labels if any(label == own for own, _, _ in runs)][:MOST]
    if not entries:
        return placeholder_figure(TITLE, "No run has a checkpoint whose code could be read.")
    look, shown = entry_styles(data), short_names(entries)
    figure, cells = panels(TITLE, list(COUNTED.values()), columns=3, height=1.9)
    for axes, what in zip(cells, COUNTED, strict=True):
        for label in entries:
            curves = [list(_course(code, use, what)) for own, code, use in runs if own == label]
            whole = band(curves, 100)
            if whole is not None:
                draw_band(axes, whole, look[label], repeats=len(curves))
        axes.set_xlim(0, 100)
        axes.set_ylim(bottom=0)
        axes.set_xticks([0, 25, 50, 75, 100])
        few_ticks(axes.yaxis, 4, whole=True)
    add_legend(
        figure,
        "budget spent (%)",
        [legend_key(look[entry], shown[entry]) for entry in entries],
        side="latest submission",
    )
    return figure


def _course(code: Code, use: BudgetUse, what: str) -> Iterator[Point]:
    for counts, spending in zip(code.submissions, use.submissions, strict=True):
        if counts is not None:
            yield 100 * (spending.spent - spending.episodes) / use.budget, getattr(counts, what)


FIGURE = Drawing(
    title=TITLE,
    caption="How large the submitted policies are as programs over the budget: means over all runs of an entry, with a "
    "band from the smallest to the largest.",
    method="Every Python file of each submitted bundle is parsed and never run; a submission holds from its first "
    "episode to the next submission.",
    draw=draw,
    needs=("code", "budget"),
)
