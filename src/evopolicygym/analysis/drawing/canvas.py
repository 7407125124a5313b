"""The canvas of figures: matplotlib's objects without its global state, in one style, saved as reproducible bytes.

Sizes are inches of the printed page; no text is smaller than eight points.
"""

import io
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any

import numpy as np

from evopolicygym.analysis.drawing.figure import EXTRA, GREY, EntryStyle
from evopolicygym.analysis.ranking.bootstrap import Floats
from evopolicygym.analysis.report_data import ReportData
from evopolicygym.core.errors import MissingExtra, UnknownName

try:
    import matplotlib as mpl
    from matplotlib.axes import Axes
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_pdf import FigureCanvasPdf
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    from matplotlib.ticker import FuncFormatter, MaxNLocator
    from matplotlib.transforms import Bbox
except ImportError as error:
    raise MissingExtra("A figure (--no-figures writes tables alone)", EXTRA, str(error.name or error)) from error


__all__ = [
    "Axes", "Figure", "FuncFormatter", "Line2D", "Patch", "add_legend", "all_finite", "few_ticks",
    "figure_bytes", "legend_key", "legend_label", "name_rows", "new_figure", "number", "panels",
    "placeholder_figure", "with_style",
]  # fmt: skip
FORMATS = ("svg", "png", "pdf")
WIDTH = 7.2
"""The width of every figure."""
DOTS = 200
"""The resolution of a PNG, in dots per inch."""
SMALL = 8.0
"""Points of the smallest text."""
KEY_HEIGHT = 0.165
"""The height of a line of the legend."""
LABEL_HEIGHT = 0.22
PAD = 0.05
RIGHT = 0.985
"""The right end of the panels, as a share of the width: a panel's title may be longer than the panel."""
PLACE_DIGITS = 9
"""Decimals of a panel's position."""
THOUSANDS, MILLION = 10_000, 1_000_000
STYLE: Mapping[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": "#4D4D4D",
    "axes.grid": True,
    "axes.linewidth": 0.6,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 8.5,
    "figure.facecolor": "white",
    "figure.labelsize": 9.0,
    "figure.titlesize": 11.0,
    "figure.titleweight": "bold",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Helvetica", "Arial", "sans-serif"],
    "font.size": 9.0,
    "grid.color": "#E3E3E3",
    "grid.linewidth": 0.5,
    "hatch.linewidth": 0.6,
    "legend.fontsize": SMALL,
    "legend.frameon": False,
    "lines.linewidth": 1.3,
    "lines.markersize": 4.5,
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
    "svg.hashsalt": "evopolicygym",
    "text.parse_math": False,
    "xtick.labelsize": SMALL,
    "xtick.major.width": 0.6,
    "ytick.labelsize": SMALL,
    "ytick.major.width": 0.6,
}


@contextmanager
def _style() -> Iterator[None]:
    """Apply our style for a while, independent of the user's matplotlibrc."""
    with mpl.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        mpl.rcdefaults()
        mpl.rcParams.update(STYLE)
        yield


def with_style(draw: Callable[[ReportData], Figure]) -> Callable[[ReportData], Figure]:
    """Return a function that draws in our style."""

    @wraps(draw)
    def draw_with_style(data: ReportData) -> Figure:
        with _style():
            return draw(data)

    return draw_with_style


def figure_bytes(figure: Figure, form: str) -> bytes:
    """Return the bytes of a figure's file; raise ``UnknownName`` for an unknown format."""
    if form not in FORMATS:
        raise UnknownName("format of figures", form, FORMATS)
    stream = io.BytesIO()
    with _style():
        if figure.get_layout_engine():  # laid out once, the same in every format
            figure.draw_without_rendering()
            figure.set_layout_engine("none")
            for axes in figure.axes:  # the last bits of what the layout's solver finds are not always the same
                position = axes.get_position()
                axes.set_position(Bbox(position.get_points().round(PLACE_DIGITS)))
        figure.dpi = DOTS
        if form == "png":
            FigureCanvasAgg(figure).print_png(stream, metadata={"Software": None})  # type: ignore[no-untyped-call]
        elif form == "pdf":
            unnamed = dict.fromkeys(("Creator", "Producer", "CreationDate"))
            FigureCanvasPdf(figure).print_pdf(stream, metadata={**unnamed, "Title": figure.get_suptitle()})  # type: ignore[no-untyped-call]
        else:
            metadata = {**dict.fromkeys(("Creator", "Date", "Format", "Type")), "Title": figure.get_suptitle()}
            FigureCanvasSVG(figure).print_svg(stream, metadata=metadata)  # type: ignore[no-untyped-call]
    return stream.getvalue()


def new_figure(title: str, height: float) -> Figure:
    """Return an empty figure."""
    figure = Figure(
        figsize=(WIDTH, height), dpi=DOTS, layout=ConstrainedLayoutEngine(w_pad=PAD, h_pad=PAD, rect=(0, 0, RIGHT, 1))
    )
    figure.suptitle(title, x=0.01, ha="left")
    return figure


def placeholder_figure(title: str, words: str) -> Figure:
    """Return a figure with a text in place of a drawing."""
    figure = new_figure(title, 1.2)
    figure.text(0.5, 0.4, words, ha="center", va="center", color=GREY, wrap=True)
    return figure


def panels(
    title: str,
    names: Sequence[str],
    *,
    columns: int,
    height: float,
    below: float = 0.0,
    sharex: bool = False,
    sharey: bool = False,
) -> tuple[Figure, list[Axes]]:
    """Return a figure with a panel of equal size for each name; ``below`` is the height of what they share."""
    columns = max(1, min(columns, len(names)))
    rows = math.ceil(len(names) / columns)
    figure = new_figure(title, rows * height + below + 0.4)
    grid = figure.subplots(rows, columns, squeeze=False, sharex=sharex, sharey=sharey)
    cells = [axes for row in grid for axes in row]
    for axes, name in zip(cells, names, strict=False):
        axes.set_title(name)
    for axes in cells[len(names) :]:
        axes.set_visible(False)
    return figure, cells[: len(names)]


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Label a row for each name, from the top down."""
    axes.set_yticks(range(len(names)), names, parse_math=False)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")


def few_ticks(axis: Any, most: int = 4, *, whole: bool = False) -> None:  # noqa: ANN401 - either axis
    """Put few and short numbers on an axis."""
    axis.set_major_locator(MaxNLocator(most, integer=whole, steps=[1, 2, 5, 10]))
    axis.set_major_formatter(FuncFormatter(lambda value, _at: number(value)))


def number(value: float) -> str:
    """Return a number of an axis."""
    size = abs(value)
    text = f"{value / 1e6:,g}M" if size >= MILLION else f"{value / 1e3:,g}k" if size >= THOUSANDS else f"{value:,.6g}"
    return text.replace("-", "\N{MINUS SIGN}")


def add_legend(figure: Figure, label: str = "", keys: Iterable[Any] = (), *, side: str = "") -> None:
    """Add the shared labels of x and y and the legend, and increase the figure's height accordingly."""
    keys = list(keys)
    longest = max((len(key.get_label()) for key in keys), default=0)
    columns = max(1, min(int(WIDTH / (0.62 + 0.07 * longest)), len(keys)))
    below = 0.1 + KEY_HEIGHT * math.ceil(len(keys) / columns) if keys else 0.0
    extra = below + (LABEL_HEIGHT if label else 0.0)
    height = figure.get_figheight() + extra
    part = extra / height
    figure.set_figheight(height)
    figure.set_layout_engine(ConstrainedLayoutEngine(w_pad=PAD, h_pad=PAD, rect=(0, part, RIGHT, 1 - part)))
    if keys:
        figure.legend(handles=keys, loc="lower center", bbox_to_anchor=(0.5, 0.0), ncols=columns)
    if label:
        figure.text(0.5, (below + 0.04) / height, label, ha="center", va="bottom")
    if side:
        figure.supylabel(side, y=(part + 1) / 2)


def legend_key(look: EntryStyle, name: str) -> Line2D:
    """Return the line of an entry in the legend."""
    return Line2D([], [], color=look.colour, marker=look.marker, linestyle=look.line, label=legend_label(name))


def legend_label(name: str) -> str:
    """Return a name for a legend, which would hide a name with a leading underscore."""
    return f" {name}" if name.startswith("_") else name


def all_finite(*values: float | None) -> bool:
    """Return whether all numbers are there and can be drawn."""
    return all(value is not None and math.isfinite(value) for value in values)


Point = tuple[float, float | None]
"""A position, and the value from there to the next point; None if it is not known."""


@dataclass(frozen=True, slots=True)
class Band:
    """The mean, least and largest of several step functions; not a number where one is unknown."""

    at: Floats
    mean: Floats
    low: Floats
    high: Floats


def band(curves: Iterable[Sequence[Point]], end: float) -> Band | None:
    """Return the band of some curves up to the end; None if a curve has no known value."""
    known = [[(at, value) for at, value in curve if value is not None and math.isfinite(value)] for curve in curves]
    if not known or not all(known):
        return None
    grid = np.array(sorted({at for curve in known for at, _ in curve if at <= end} | {end}), dtype=float)
    values = np.array([_values_on_grid(curve, grid) for curve in known])
    return Band(grid, values.mean(axis=0), values.min(axis=0), values.max(axis=0))


def _values_on_grid(curve: Sequence[tuple[float, float]], grid: Floats) -> Floats:
    positions, values = np.array([at for at, _ in curve]), np.array([value for _, value in curve])
    before = np.searchsorted(positions, grid, side="right") - 1
    return np.where(before >= 0, values[before], np.nan)


def draw_band(axes: Axes, band: Band, look: EntryStyle, *, repeats: int) -> None:
    """Draw a band in an entry's style; a single repeat is a line only."""
    axes.plot(
        band.at, band.mean, drawstyle="steps-post", color=look.colour, linestyle=look.line, marker=look.marker,
        markevery=max(1, len(band.at) // 4), markersize=3.5,
    )  # fmt: skip
    if repeats > 1:
        axes.fill_between(
            band.at, band.low, band.high, step="post", color=look.colour, alpha=0.15, linewidth=0, zorder=1
        )
