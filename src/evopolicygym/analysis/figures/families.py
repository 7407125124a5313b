"""Rank scores by family of tasks."""

from evopolicygym.analysis.drawing.canvas import Figure, add_legend, name_rows, panels, placeholder_figure, with_style
from evopolicygym.analysis.drawing.figure import GREY, Drawing, entry_styles, short_names, shorten
from evopolicygym.analysis.published.score_tables import ANCHOR
from evopolicygym.analysis.report_data import ReportData

TITLE = "Rank score by family of tasks"
MOST = 30
"""Entries that are shown, the best."""
COLUMNS = 4
LONGEST = 20
"""Characters of a family's name."""


@with_style
def draw(data: ReportData) -> Figure:
    """Return the figure."""
    board = data.board
    if board is None or not board.standings:
        return placeholder_figure(TITLE, "No entry has a finished run.")
    rows = [standing for standing in board.standings if standing.has_score][:MOST]
    families = list(dict.fromkeys(task.family for task in board.tasks))
    titles = [shorten(family, LONGEST) for family in families]
    figure, cells = panels(TITLE, titles, columns=COLUMNS, height=0.55 + 0.2 * len(rows), sharex=True, sharey=True)
    look, shown = entry_styles(data), short_names(standing.entry.label for standing in rows)
    for axes, family in zip(cells, families, strict=True):
        for row, standing in enumerate(rows):
            score = standing.families.get(family)
            if score is None:
                continue
            own = look[standing.entry.label]
            colour = GREY if standing.entry.kind == ANCHOR else own.colour
            if score.interval:
                axes.plot([score.interval.low, score.interval.high], [row, row], color=colour)
            face = "white" if standing.entry.is_shipped else colour
            axes.plot([score.value], [row], own.marker, color=colour, markerfacecolor=face)
        axes.set_xticks([0, 0.5, 1], ["0", "½", "1"])
        axes.set_xlim(-0.08, 1.08)
        name_rows(axes, [shown[standing.entry.label] for standing in rows])
        axes.tick_params(labelbottom=True)
    add_legend(figure, "mean rank score over the family's tasks, 1 is best (line: 95 % interval)")
    return figure


FIGURE = Drawing(
    title=TITLE,
    caption="The leaderboard's rank score split by family of tasks: where an entry is strong and where it is weak.",
    method="As the leaderboard's, averaged over the tasks of each family.",
    draw=draw,
)
