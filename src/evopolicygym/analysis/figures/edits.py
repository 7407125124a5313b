"""What was changed from one submission to the next, and which kind of change set a new best."""

from collections.abc import Sequence
from typing import Any

from evopolicygym.analysis.diagnostics.edits import Edit, Edits, Hits
from evopolicygym.analysis.drawing.canvas import SMALL, Axes, Figure, Patch, foot, name_rows, panels, styled, worded
from evopolicygym.analysis.drawing.figure import Drawing
from evopolicygym.analysis.drawing.looks import COLOURS, GREY, HATCHES, names
from evopolicygym.analysis.findings import Findings

TITLE = "Edits from one submission to the next"
MOST = 15
"""Entries that are shown, the best."""
LONGEST = 24
COLUMNS = 2
KINDS = tuple(reversed(Edit))
LOOKS = {Edit.STRUCTURAL: (COLOURS[0], HATCHES[0]), Edit.PARAMETRIC: (COLOURS[4], HATCHES[1]), Edit.NONE: (GREY, "...")}


@styled
def draw(findings: Findings) -> Figure:
    """Return the figure: a row of two panels for each kind of task."""
    runs = [(run.group, edits) for run, edits in findings.measured("edits")]
    kinds = sorted({group.kind for group, _ in runs})
    entries = [label for label in findings.labels if any(group.entry == label for group, _ in runs)][:MOST]
    titles = [f"{kind} tasks: {what}" for kind in kinds for what in ("share of edits", "hit rate")]
    counted = {
        (label, kind): _together([edits for group, edits in runs if group.entry == label and group.kind == kind])
        for label in entries
        for kind in kinds
    }
    if not any(hits.edits for all_hits in counted.values() for hits in all_hits.values()):
        return worded(TITLE, "No run has two submissions whose worth is known.")
    figure, cells = panels(TITLE, titles, columns=COLUMNS, height=0.75 + 0.42 * len(entries), sharey=True)
    shown = names(entries, LONGEST)
    for at, kind in enumerate(kinds):
        shares, rates = cells[2 * at], cells[2 * at + 1]
        for row, label in enumerate(entries):
            _draw_shares(shares, row, counted[label, kind])
            _draw_rates(rates, row, counted[label, kind])
        for axes, what in ((shares, "share of edits (%)"), (rates, "edits that set a new best (%)")):
            name_rows(axes, [shown[label] for label in entries])
            axes.set_xticks(range(0, 101, 20))
            axes.set_xlabel(what)
            axes.tick_params(labelbottom=True)
        shares.set_xlim(0, 100)
        rates.set_xlim(0, 118)  # room for what stands beside a whole bar
    foot(figure, keys=[_bar_key(kind) for kind in KINDS])
    return figure


def _together(runs: Sequence[Edits]) -> dict[Edit, Hits]:
    """Return the edits of some runs, counted together, as the diagnostic's table has them."""
    own = {kind: [run.hits[kind.value] for run in runs] for kind in KINDS}
    return {kind: Hits(sum(one.edits for one in own[kind]), sum(one.hits for one in own[kind])) for kind in KINDS}


def _draw_shares(axes: Axes, row: int, counted: dict[Edit, Hits]) -> None:
    total, left = sum(hits.edits for hits in counted.values()), 0.0
    for kind in KINDS:
        if not counted[kind].edits:
            continue
        width = 100 * counted[kind].edits / total
        axes.barh(row, width, left=left, height=0.55, **_bar(kind))
        left += width


def _draw_rates(axes: Axes, row: int, counted: dict[Edit, Hits]) -> None:
    for place, kind in enumerate(KINDS):
        hits = counted[kind]
        if hits.rate is None:
            continue
        middle = row + 0.27 * (place - 1)
        axes.barh(middle, 100 * hits.rate, height=0.22, **_bar(kind))
        axes.text(100 * hits.rate + 1, middle, f"{hits.hits}/{hits.edits}", fontsize=SMALL, va="center")


def _bar(kind: Edit) -> dict[str, Any]:
    colour, hatch = LOOKS[kind]
    return {"facecolor": colour, "hatch": hatch, "edgecolor": "white", "linewidth": 0.4}


def _bar_key(kind: Edit) -> Patch:
    return Patch(label=kind.value, **_bar(kind))


FIGURE = Drawing(
    title=TITLE,
    says="What each entry changed, and which changes paid: shares of structural, parametric and empty edits, and the "
    "part of each that set a new validation best (hits/edits).",
    computed="Syntax trees without literals tell structural from parametric edits; edits are counted over all runs of "
    "an entry on a kind of task, first submissions and those whose worth isn't known aside.",
    draw=draw,
    needs=("edits",),
)
