"""A figure: how many entries there are, in words."""

from evopolicygym.analysis.drawing.canvas import Figure, placeholder_figure, with_style
from evopolicygym.analysis.drawing.figure import Drawing
from evopolicygym.analysis.findings import Findings

TITLE = "Entries"


@with_style
def draw(findings: Findings) -> Figure:
    """Return the figure."""
    return placeholder_figure(TITLE, f"{len(findings.board.standings) if findings.board else 0} entries were ranked.")


FIGURE = Drawing(TITLE, "How many entries there are.", "Counted.", draw)
