"""The lineage of submissions: a tree over the episodes spent, for a run of each entry on each task."""

from collections.abc import Sequence
from itertools import islice
from typing import Any

from evopolicygym.analysis.diagnostics.edits import Edits
from evopolicygym.analysis.drawing.canvas import (
    SMALL,
    Axes,
    Figure,
    Line2D,
    add_legend,
    all_finite,
    few_ticks,
    panels,
    placeholder_figure,
    with_style,
)
from evopolicygym.analysis.drawing.figure import EDIT_STYLES, GREY, KINDS, Drawing, short_names, shorten
from evopolicygym.analysis.report_data import ReportData, ReportRun
from evopolicygym.core.submission import STARTER, EditKind
from evopolicygym.records.rows import Edit

TITLE = "Lineages"
MOST = 12
"""Runs that are drawn, those of the best entries first on each task."""
COLUMNS = 2
LONGEST = 22
FLAT = 0.125
"""Share of the whole range below which the better half of a run's submissions would look flat."""
SIZE, LARGE = 4.5, 8.0
"""Points of a submission's mark, and of a hit's."""


@with_style
def draw(data: ReportData) -> Figure:
    """Return the figure: a panel for each run that is drawn."""
    every = _first_runs(data)
    drawn = list(islice(every, MOST))
    if not drawn:
        return placeholder_figure(TITLE, "No run has a submission.")
    shown = short_names(dict.fromkeys(run.result.agent for run, _ in drawn), LONGEST)
    tasks = [shorten(run.result.task, LONGEST) for run, _ in drawn]
    figure, cells = panels(TITLE, tasks, columns=COLUMNS, height=1.9)
    for axes, (run, edits) in zip(cells, drawn, strict=True):
        axes.set_title(shown[run.result.agent], loc="right", color=GREY, parse_math=False)
        _draw_run(axes, run, edits.submissions)
    add_legend(figure, "train episodes spent", [_key(kind.value, _mark(kind)) for kind in KINDS] + [
        _key("hit", {"marker": "o", "markerfacecolor": "none", "markeredgecolor": "black", "markersize": LARGE}),
        _key("without a worth", {"marker": "x", "markeredgecolor": GREY}),
    ], side="validation mean")  # fmt: skip
    if len(every) > MOST:
        figure.suptitle(f"{TITLE} ({MOST} of {len(every)} entries on their tasks)", x=0.01, ha="left")
    return figure


def _first_runs(data: ReportData) -> list[tuple[ReportRun, Edits]]:
    """Return the first run of each entry on each task that has a submission."""
    order = {label: at for at, label in enumerate(data.labels)}
    first: dict[tuple[str, str], tuple[ReportRun, Edits]] = {}
    for run, edits in data.measured("edits"):
        if edits.submissions:
            first.setdefault((run.result.task, run.result.agent), (run, edits))
    tasks = data.tasks
    return sorted(first.values(), key=lambda group: (tasks.index(group[0].result.task), order[group[0].result.agent]))


def _draw_run(axes: Axes, run: ReportRun, submissions: Sequence[Edit]) -> None:
    known = {
        edit.submission: edit.validation_mean
        for edit in submissions
        if edit.validation_mean is not None and all_finite(edit.validation_mean)
    }
    anchor = run.result.random_anchor
    root = anchor.mean if anchor and all_finite(anchor.mean) else min(known.values(), default=0.0)
    bottom = _bottom([root, *known.values()])
    points = {STARTER: (0.0, max(root, bottom))}
    points |= {edit.submission: (edit.spent, max(known.get(edit.submission, bottom), bottom)) for edit in submissions}
    for index, worth in {STARTER: root, **known}.items():
        if worth < bottom:
            text, point = f"{worth:.3g}", points[index]
            axes.annotate(text, point, (0, 6), textcoords="offset points", ha="center", color=GREY, size=SMALL)
    for edit in submissions:
        if edit.parent is not None:
            ends = zip(points[edit.parent], points[edit.submission], strict=True)
            axes.plot(*ends, color=GREY, linewidth=0.7, zorder=1)
    axes.plot(*points[STARTER], marker="D", color="black", markersize=SIZE, zorder=2)
    for edit in submissions:
        _draw_submission(axes, edit, points[edit.submission])
    axes.set_xlim(-0.03 * max(run.result.budget, 1), 1.03 * max(run.result.budget, 1))
    few_ticks(axes.xaxis, 4, whole=True)
    few_ticks(axes.yaxis, 4)
    axes.margins(y=0.12)


def _bottom(worths: Sequence[float]) -> float:
    """Return the height at which what has no worth stands, and what is too low for the better half not to look flat."""
    better = sorted(worths)[len(worths) // 2 :]
    spread, whole = max(better) - min(better), max(worths) - min(worths)
    return min(better) - 0.5 * spread if 0 < spread < FLAT * whole else min(worths) - 0.12 * (whole or 1.0)


def _draw_submission(axes: Axes, edit: Edit, point: tuple[float, float]) -> None:
    if not all_finite(edit.validation_mean):
        colour = EDIT_STYLES[edit.edit_kind].colour if edit.edit_kind else GREY
        axes.plot(*point, linestyle="", marker="x", color=colour, zorder=3)
        return
    if edit.is_hit:
        axes.plot(*point, linestyle="", marker="o", markerfacecolor="none", markeredgecolor="black",
                  markersize=LARGE, zorder=3)  # fmt: skip
    look = _mark(edit.edit_kind) if edit.edit_kind else {"marker": ".", "color": GREY}
    axes.plot(*point, linestyle="", zorder=4, markersize=SIZE, **look)


def _mark(kind: EditKind) -> dict[str, Any]:
    return {"marker": EDIT_STYLES[kind].marker, "color": EDIT_STYLES[kind].colour}


def _key(name: str, mark: dict[str, Any]) -> Line2D:
    return Line2D([], [], linestyle="", label=name, **mark)


FIGURE = Drawing(
    title=TITLE,
    caption="How each entry went from policy to policy: a submission stands where its episodes end, as high as its "
    "worth on validation, with a line to what it was made of; a colour and a mark for each kind of edit, a ring for "
    "a hit.",
    method="Parents are declared or the nearest earlier submission, by docs/measure/diagnostics.md; the diamond is "
    "the starter, at the random anchor's mean. Where the better half of a run would look flat, what is lower stands at "
    "the bottom, its worth beside it. Of each entry on a task the first run is drawn.",
    draw=draw,
    needs=("edits",),
)
