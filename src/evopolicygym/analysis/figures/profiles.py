"""Performance profiles: the share of an entry's runs whose normalised score is above a threshold."""

from evopolicygym.analysis.drawing.canvas import (
    Figure,
    add_legend,
    few_ticks,
    legend_key,
    new_figure,
    placeholder_figure,
    with_style,
)
from evopolicygym.analysis.drawing.figure import Drawing, entry_styles, short_names
from evopolicygym.analysis.published.score_tables import ANCHOR
from evopolicygym.analysis.report_data import ReportData

TITLE = "Performance profiles"
MOST = 8
"""Entries that are drawn, the best by interquartile mean."""
WHOLE = 100
"""Per cent."""
HEIGHT = 2.9
"""Of the panel, in inches."""
MARKS = 6
"""Marks on a curve."""


@with_style
def draw(data: ReportData) -> Figure:
    """Return the figure."""
    entries = [row for row in data.aggregates.entries if row.entry.kind != ANCHOR]
    if not entries:
        return placeholder_figure(TITLE, "No entry has scores that can be normalised on all tasks.")
    rows = entries[:MOST]
    figure = new_figure(TITLE, HEIGHT)
    axes = figure.subplots()
    styles, names = entry_styles(data), short_names(row.entry.label for row in rows)
    for row in rows:
        style, profile = styles[row.entry.label], row.profile
        axes.step(
            profile.thresholds, [WHOLE * share for share in profile.shares], where="post", color=style.colour,
            linestyle=style.line, marker=style.marker, markevery=max(1, len(profile.thresholds) // MARKS),
            markersize=3.5, markerfacecolor="white" if row.entry.is_shipped else style.colour,
        )  # fmt: skip
        if profile.low is not None and profile.high is not None:
            low, high = ([WHOLE * share for share in ends] for ends in (profile.low, profile.high))
            axes.fill_between(
                profile.thresholds, low, high, step="post", color=style.colour, alpha=0.15, linewidth=0, zorder=1
            )
    axes.set_xlim(rows[0].profile.thresholds[0], rows[0].profile.thresholds[-1])
    axes.set_ylim(-3, WHOLE + 3)
    few_ticks(axes.xaxis, 6)
    few_ticks(axes.yaxis, 4, whole=True)
    axes.set_ylabel("share of runs above it (%)")
    if len(entries) > MOST:
        axes.set_title(f"the best {MOST} of {len(entries)} entries")
    keys = [legend_key(styles[row.entry.label], names[row.entry.label]) for row in rows]
    add_legend(figure, "normalised score", keys)
    return figure


FIGURE = Drawing(
    title=TITLE,
    caption="The share of each entry's runs whose normalised score is above each threshold, over all tasks, with a "
    "pointwise 95 % band: a curve above another one everywhere is better at every threshold. Entries without a score "
    "on some task are left out.",
    method="As `evopolicygym leaderboard --show aggregates` does (Agarwal et al. 2021, arXiv 2108.13264, score "
    "distributions): 0 is uniform random, 1 the best agent; tasks weigh the same.",
    draw=draw,
)
