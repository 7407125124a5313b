"""A figure, the registry of figures, and the styles and names of what figures show.

A figure is a file of ``figures/`` that defines ``FIGURE``, an entry point of the group ``evopolicygym.figures``, or
``package.module:ATTRIBUTE``. Entries and kinds of edit look the same in all figures: they differ by colour, and without
colour by marker, line or hatch.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from evopolicygym.analysis.lineage.edits import ASIDE, COUNTED
from evopolicygym.analysis.report_data import ReportData
from evopolicygym.core.registry import Registry
from evopolicygym.core.submission import EditKind
from evopolicygym.core.text import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure


FIGURES = Registry(
    kind="figure",
    package="evopolicygym.analysis.figures",
    group="evopolicygym.figures",
    attribute="FIGURE",
)
EXTRA = "figures"
"""The name of the optional dependencies that figures need."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """One figure: what it shows, and how it is drawn."""

    title: str
    caption: str
    """What a reader sees in it, in a sentence."""
    method: str
    """How it was computed, in a sentence."""
    draw: "Callable[[ReportData], Figure]"
    """Returns a figure of any runs, none included; a pure function."""
    needs: tuple[str, ...] = ()
    """Diagnostics that it draws."""


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
class EntryStyle:
    """The style of an entry."""

    colour: str
    marker: str
    line: Line


def entry_style(index: int) -> EntryStyle:
    """Return the style of the entry of an index; the first 280 differ."""
    return EntryStyle(COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)], LINES[index % len(LINES)])


def entry_styles(data: ReportData) -> dict[str, EntryStyle]:
    """Return the style of each entry, the same in all figures: the played ones, then the shipped ones."""
    standings = data.board.standings if data.board else ()
    labels = dict.fromkeys([*data.labels, *(standing.entry.label for standing in standings)])
    return {label: entry_style(index) for index, label in enumerate(labels)}


def short_names(labels: Iterable[str], longest: int = LONGEST) -> dict[str, str]:
    """Return the short names of labels in a figure: in one line, and different if the labels are."""
    names: dict[str, str] = {}
    for label in labels:
        name, again = shorten(label, longest), 2
        while name in names.values():
            name, again = f"{shorten(label, longest - 4)} ({again})", again + 1
        names[label] = name
    return names


def shorten(text: str, longest: int = LONGEST) -> str:
    """Return a text in one line of at most ``longest`` characters; an ellipsis replaces the middle of a longer text."""
    text = printable(text)
    tail = longest // 3
    return text if len(text) <= longest else f"{text[: longest - tail - 1].rstrip()}…{text[-tail:].lstrip()}"


KINDS = (*COUNTED, *ASIDE)
"""The kinds of edit, in the order of drawing."""


@dataclass(frozen=True, slots=True)
class EditStyle:
    """The style of a kind of edit."""

    colour: str
    hatch: str
    """The hatch of a bar."""
    marker: str
    """The marker of a point."""


EDIT_STYLES: Mapping[EditKind, EditStyle] = {
    EditKind.STRUCTURAL: EditStyle(COLOURS[0], HATCHES[0], "s"),
    EditKind.PARAMETRIC: EditStyle(COLOURS[4], HATCHES[1], "o"),
    EditKind.COSMETIC: EditStyle(COLOURS[3], HATCHES[2], "P"),
    EditKind.REVERT: EditStyle(COLOURS[2], HATCHES[4], "v"),
    EditKind.REPAIR: EditStyle(COLOURS[1], HATCHES[3], "^"),
    EditKind.NONE: EditStyle(GREY, HATCHES[2], "."),
}
