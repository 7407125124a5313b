"""How entries look and are called in figures: distinguished by colour, and without it by marker and kind of line."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from evopolicygym.analysis.findings import Findings
from evopolicygym.core.text import printable

Line = Literal["-"] | tuple[float, tuple[float, ...]]
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's, distinguished by colour-blind readers too; their yellow is not seen on white, and left out."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES: tuple[Line, ...] = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (5, 1.5, 1, 1.5)), (0, (3, 1, 1, 1, 1, 1)))
HATCHES = ("", "////", "...", "xxxx", "\\\\\\\\", "++", "||||")
GREY, PALE = "#767676", "#E9E9E9"
LONGEST = 30
"""Characters of a name in a figure."""


@dataclass(frozen=True, slots=True)
class Look:
    """How one entry is drawn."""

    colour: str
    marker: str
    line: Line


def look(place: int) -> Look:
    """Return the look of the entry at a place; the first 280 have different ones."""
    return Look(COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)], LINES[place % len(LINES)])


def looks(findings: Findings) -> dict[str, Look]:
    """Return the look of each entry, the same in all figures: those that were played, then the shipped ones."""
    standings = findings.board.standings if findings.board else ()
    labels = dict.fromkeys([*findings.labels, *(one.entry.label for one in standings)])
    return {label: look(place) for place, label in enumerate(labels)}


def names(labels: Iterable[str], longest: int = LONGEST) -> dict[str, str]:
    """Return what labels are called in a figure: short, in one line, and different where the labels are."""
    found: dict[str, str] = {}
    for label in labels:
        name, again = shortened(label, longest), 2
        while name in found.values():
            name, again = f"{shortened(label, longest - 4)} ({again})", again + 1
        found[label] = name
    return found


def shortened(text: str, longest: int = LONGEST) -> str:
    """Return a text in one line of so many characters; an ellipsis stands for its middle where it is longer."""
    text = printable(text)
    tail = longest // 3
    return text if len(text) <= longest else f"{text[: longest - tail - 1].rstrip()}…{text[-tail:].lstrip()}"
