"""The edits from each submission's parent to it, and which kinds of edit paid."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from evopolicygym.analysis.diagnostics.edits import Edits, total
from evopolicygym.analysis.drawing.canvas import (
    SMALL,
    Axes,
    Figure,
    Patch,
    add_legend,
    name_rows,
    panels,
    placeholder_figure,
    with_style,
)
from evopolicygym.analysis.drawing.figure import EDIT_STYLES, KINDS, Drawing, short_names
from evopolicygym.analysis.lineage.edits import COUNTED
from evopolicygym.analysis.report_data import ReportData
from evopolicygym.core.submission import EditKind

TITLE = "Edits and whether they paid"
MOST = 15
"""Entries that are shown, the best."""
LONGEST = 24
COLUMNS = 2


@with_style
def draw(data: ReportData) -> Figure:
    """Return the figure: a row of two panels for each kind of task."""
    runs = [(run.group, edits) for run, edits in data.measured("edits")]
    kinds = sorted({group.kind for group, _ in runs})
    entries = [label for label in data.labels if any(group.entry == label for group, _ in runs)][:MOST]
    titles = [f"{kind} tasks: {what}" for kind in kinds for what in ("share of edits", "hit rate")]
    counted = {
        (label, kind): [edits for group, edits in runs if group.entry == label and group.kind == kind]
        for label in entries
        for kind in kinds
    }
    if not any(edits for _, edits in runs if edits.submissions):
        return placeholder_figure(TITLE, "No run has a submission.")
    figure, cells = panels(TITLE, titles, columns=COLUMNS, height=0.75 + 0.42 * len(entries), sharey=True)
    shown = short_names(entries, LONGEST)
    for at, kind in enumerate(kinds):
        shares, rates = cells[2 * at], cells[2 * at + 1]
        for row, label in enumerate(entries):
            _draw_shares(shares, row, counted[label, kind])
            _draw_rates(rates, row, counted[label, kind])
        for axes, what in ((shares, "share of edits (%)"), (rates, "edits that were a real gain (%)")):
            name_rows(axes, [shown[label] for label in entries])
            axes.set_xticks(range(0, 101, 20))
            axes.set_xlabel(what)
            axes.tick_params(labelbottom=True)
        shares.set_xlim(0, 100)
        rates.set_xlim(0, 118)  # room for what stands beside a whole bar
    add_legend(figure, keys=[_bar_key(kind) for kind in KINDS])
    return figure


def _draw_shares(axes: Axes, row: int, runs: Sequence[Edits]) -> None:
    counts = Counter(edit.edit_kind for edits in runs for edit in edits.submissions if edit.edit_kind)
    left = 0.0
    for kind in KINDS:
        if not counts[kind]:
            continue
        width = 100 * counts[kind] / counts.total()
        axes.barh(row, width, left=left, height=0.55, **_bar(kind))
        left += width


def _draw_rates(axes: Axes, row: int, runs: Sequence[Edits]) -> None:
    for index, kind in enumerate(COUNTED):
        hits = total(runs, kind)
        if hits.rate is None:
            continue
        middle = row + 0.3 * (index - 0.5)
        axes.barh(middle, 100 * hits.rate, height=0.26, **_bar(kind))
        axes.text(100 * hits.rate + 1, middle, f"{hits.hits}/{hits.edits}", fontsize=SMALL, va="center")


def _bar(kind: EditKind) -> dict[str, Any]:
    look = EDIT_STYLES[kind]
    return {"facecolor": look.colour, "hatch": look.hatch, "edgecolor": "white", "linewidth": 0.4}


def _bar_key(kind: EditKind) -> Patch:
    return Patch(label=kind.value, **_bar(kind))


FIGURE = Drawing(
    title=TITLE,
    caption="What each entry changed against each submission's parent: shares of the kinds of edits, and the part of "
    "the structural and the parametric ones that were a real gain on validation (hits/edits).",
    method="A parent is declared or the nearest earlier submission; programs are compared without their names and "
    "order. A hit is a gain beyond noise, case by case, over the parent and the best so far. Edits are counted over "
    "all runs of an entry on a kind of task; those whose worth isn't known are in the shares alone.",
    draw=draw,
    needs=("edits",),
)
