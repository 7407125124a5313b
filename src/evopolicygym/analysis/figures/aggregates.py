"""Aggregates of normalised scores over runs and tasks, with their intervals: a row for each entry."""

from collections.abc import Callable, Mapping, Sequence

from evopolicygym.analysis.drawing.canvas import (
    Figure,
    add_legend,
    all_finite,
    few_ticks,
    name_rows,
    panels,
    placeholder_figure,
    with_style,
)
from evopolicygym.analysis.drawing.figure import Drawing, entry_styles, short_names
from evopolicygym.analysis.published.score_tables import ANCHOR
from evopolicygym.analysis.ranking.aggregates import EntryAggregates
from evopolicygym.analysis.ranking.leaderboard import Score
from evopolicygym.analysis.report_data import ReportData

TITLE = "Aggregates of normalised scores"
MOST = 30
"""Entries that are shown, the best."""
MARGIN = 0.05
"""Of the scale at both ends, as a share of its length."""
PANELS: Mapping[str, Callable[[EntryAggregates], Score]] = {
    "interquartile mean": lambda row: row.interquartile_mean,
    "median": lambda row: row.median,
    "mean": lambda row: row.mean,
    "optimality gap": lambda row: row.optimality_gap,
}


@with_style
def draw(data: ReportData) -> Figure:
    """Return the figure."""
    rows = [row for row in data.aggregates.entries if row.entry.kind != ANCHOR][:MOST]
    if not rows:
        return placeholder_figure(TITLE, "No entry has scores that can be normalised on all tasks.")
    figure, cells = panels(TITLE, list(PANELS), columns=4, height=0.55 + 0.2 * len(rows), sharex=True, sharey=True)
    styles, names = entry_styles(data), short_names(row.entry.label for row in rows)
    for axes, score_of in zip(cells, PANELS.values(), strict=True):
        for at, row in enumerate(rows):
            style, score = styles[row.entry.label], score_of(row)
            if score.interval and all_finite(score.interval.low, score.interval.high):
                axes.plot([score.interval.low, score.interval.high], [at, at], color=style.colour)
            face = "white" if row.entry.is_shipped else style.colour
            axes.plot([score.value], [at], style.marker, color=style.colour, markerfacecolor=face)
        name_rows(axes, [names[row.entry.label] for row in rows])
        few_ticks(axes.xaxis, 3)
    low, high = _ends(rows)
    cells[0].set_xlim(low - MARGIN * (high - low), high + MARGIN * (high - low))
    add_legend(figure, "normalised score over all runs of all tasks (line: 95 % interval); a smaller gap is better")
    return figure


def _ends(rows: Sequence[EntryAggregates]) -> tuple[float, float]:
    """Return the ends of a scale with 0, 1 and all values and intervals."""
    scores = [score_of(row) for row in rows for score_of in PANELS.values()]
    ends = [end for score in scores if score.interval for end in (score.interval.low, score.interval.high)]
    finite = [value for value in (0.0, 1.0, *ends, *(score.value for score in scores)) if all_finite(value)]
    return min(finite), max(finite)


FIGURE = Drawing(
    title=TITLE,
    caption="Four aggregates of each entry's normalised scores over all runs of all tasks, with 95 % intervals; hollow "
    "marks are entries that were not played here. The interquartile mean leaves out the best and the worst quarter.",
    method="As `evopolicygym leaderboard --show aggregates` does (Agarwal et al. 2021, arXiv 2108.13264): 0 is "
    "uniform random, 1 the best agent, never clipped; intervals by a bootstrap stratified by task.",
    draw=draw,
)
