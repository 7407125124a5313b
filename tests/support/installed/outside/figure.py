"""A figure: how many entries there are, in words."""

from evopolicygym.analysis.drawing.canvas import Figure, placeholder_figure, with_style
from evopolicygym.analysis.drawing.figure import Drawing
from evopolicygym.analysis.report_data import ReportData

TITLE = "Entries"


@with_style
def draw(data: ReportData) -> Figure:
    """Return the figure."""
    return placeholder_figure(TITLE, f"{len(data.board.standings) if data.board else 0} entries were ranked.")


FIGURE = Drawing(TITLE, "How many entries there are.", "Counted.", draw)
