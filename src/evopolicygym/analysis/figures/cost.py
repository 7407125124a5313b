"""The cost of a score: money and tokens against the rank score."""

from collections.abc import Callable, Sequence

from evopolicygym.analysis.drawing.canvas import (
    Axes,
    Figure,
    add_legend,
    all_finite,
    few_ticks,
    legend_key,
    panels,
    placeholder_figure,
    with_style,
)
from evopolicygym.analysis.drawing.figure import Drawing, entry_styles, short_names
from evopolicygym.analysis.ranking.leaderboard import Standing
from evopolicygym.analysis.report_data import ReportData
from evopolicygym.analysis.tables.table import AT_LEAST

TITLE = "Cost against score"
WIDE = 30
"""The ratio of the largest to the least value above which the axis is logarithmic."""
AXES: Sequence[tuple[str, str, Callable[[Standing], float | None]]] = (
    ("money", "US dollars of a pass over its tasks", lambda standing: standing.cost.value if standing.cost else None),
    ("tokens", "tokens of a pass over its tasks", lambda standing: standing.tokens),
)


@with_style
def draw(data: ReportData) -> Figure:
    """Return the figure: a panel for money and one for tokens, as far as they are known."""
    standings = [standing for standing in data.board.standings if not standing.entry.is_shipped] if data.board else []
    known = [
        (title, label, points)
        for title, label, of in AXES
        if (
            points := [
                (standing, value) for standing in standings if (value := of(standing)) is not None and all_finite(value)
            ]
        )
    ]
    if not known:
        return placeholder_figure(
            TITLE, "No entry's runs all tell what they cost: agents without a model use no tokens."
        )
    entries = [
        standing.entry.label
        for standing in standings
        if any(standing is each for *_, points in known for each, _ in points)
    ]
    look, shown = entry_styles(data), short_names(entries)
    figure, cells = panels(TITLE, [title for title, *_ in known], columns=2, height=2.3, sharey=True)
    for axes, (_, label, points) in zip(cells, known, strict=True):
        for standing, value in points:
            own, score = look[standing.entry.label], standing.rank_score
            if score.interval:
                axes.plot([value, value], [score.interval.low, score.interval.high], color=own.colour)
            axes.plot([value], [score.value], own.marker, color=own.colour, markersize=6)
            if standing.cost and standing.cost.is_lower_bound:
                axes.annotate(AT_LEAST.strip(), (value, score.value), (-4, 0), textcoords="offset points", ha="right")
        _scale(axes, [value for _, value in points])
        axes.set_xlabel(label)
        axes.set_ylim(-0.03, 1.03)
    cells[0].set_ylabel("mean rank score, 1 is best\n(line: 95 % interval)")
    add_legend(figure, keys=[legend_key(look[entry], shown[entry]) for entry in entries])
    return figure


def _scale(axes: Axes, values: Sequence[float]) -> None:
    if min(values) > 0 and max(values) > WIDE * min(values):
        axes.set_xscale("log")
    else:
        axes.set_xlim(0, (max(values) or 1.0) * 1.1)
        few_ticks(axes.xaxis, 5)


FIGURE = Drawing(
    title=TITLE,
    caption="What each entry's score cost in money and tokens: up and to the left is better.",
    method="Means over an entry's repeats, summed over its tasks, as counted at the model proxy or by the agent's "
    "tool; an entry stands here if every one of its runs tells it, for money all at one price. ≥ marks lower bounds.",
    draw=draw,
)
