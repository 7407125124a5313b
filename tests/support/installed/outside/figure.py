"""A figure: how many entries there are, in words."""

from evopolicygym.analysis.drawing.canvas import Figure, styled, worded
from evopolicygym.analysis.drawing.figure import Drawing
from evopolicygym.analysis.findings import Findings

TITLE = "Entries"


@styled
def draw(findings: Findings) -> Figure:
    """Return the figure."""
    return worded(TITLE, f"{len(findings.board.standings) if findings.board else 0} entries were ranked.")


FIGURE = Drawing(TITLE, "How many entries there are.", "Counted.", draw)
