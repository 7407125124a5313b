"""Generalisation: train, validation and held-out means of the selected checkpoint."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evopolicygym.analysis.diagnostics.generalisation import Generalisation
from evopolicygym.analysis.drawing.canvas import (
    Axes,
    Figure,
    Line2D,
    add_legend,
    all_finite,
    few_ticks,
    legend_key,
    panels,
    placeholder_figure,
    with_style,
)
from evopolicygym.analysis.drawing.figure import Drawing, EntryStyle, entry_styles, short_names, shorten
from evopolicygym.analysis.report_data import ReportData
from evopolicygym.core.score import Estimate, estimate, mean

TITLE = "Generalisation of the selected checkpoint"
MOST = 8
"""Entries that are drawn, the best."""
COLUMNS = 4
LONGEST = 20
SPLITS = ("train", "validation", "held_out")
SPREAD = 0.4
"""The distance between the outermost entries at a split."""


@dataclass(frozen=True, slots=True)
class _EntryMeans:
    """The means of an entry on a task, over its repeats."""

    splits: Mapping[str, Estimate | None]
    best_other: float | None
    """The mean over the repeats where it is known."""


@with_style
def draw(data: ReportData) -> Figure:
    """Return the figure."""
    entries = data.labels[:MOST]
    tasks = {
        task: {label: means for label, runs in own.items() if label in entries and (means := _means(runs))}
        for task, own in data.by_task_and_entry("generalisation").items()
    }
    tasks = {task: own for task, own in tasks.items() if own}
    if not tasks:
        return placeholder_figure(TITLE, "No run has a selected checkpoint.")
    look, shown = entry_styles(data), short_names(entries)
    figure, cells = panels(TITLE, [shorten(task, LONGEST) for task in tasks], columns=COLUMNS, height=1.6)
    for axes, own in zip(cells, tasks.values(), strict=True):
        _draw_task(axes, own, entries, look)
    keys = [legend_key(look[entry], shown[entry]) for entry in entries if any(entry in own for own in tasks.values())]
    if any(means.best_other is not None for own in tasks.values() for means in own.values()):
        keys.append(Line2D([], [], color="black", linestyle="", marker="_", markersize=9, label="best not selected"))
    add_legend(figure, keys=keys, side="mean return ± s.e.")
    return figure


def _means(runs: Sequence[Generalisation]) -> _EntryMeans | None:
    chosen = [run.selected for run in runs if run.selected]
    if not chosen:
        return None
    splits = {split: _over([getattr(checkpoint, split) for checkpoint in chosen]) for split in SPLITS}
    return _EntryMeans(splits, mean(run.best_other for run in runs))


def _over(repeats: Sequence[Estimate | None]) -> Estimate | None:
    """Return the mean over repeats, with its standard error over them; of one repeat, its own over cases."""
    known = [repeat for repeat in repeats if repeat is not None and math.isfinite(repeat.mean)]
    return known[0] if len(known) == 1 else estimate([mean.mean for mean in known]) if known else None


def _draw_task(
    axes: Axes, own: Mapping[str, _EntryMeans], entries: Sequence[str], look: Mapping[str, EntryStyle]
) -> None:
    for index, label in enumerate(entries):
        if label not in own:
            continue
        aside = SPREAD * ((index + 0.5) / len(entries) - 0.5)
        style, means = look[label], own[label]
        points = [(at + aside, mean) for at, split in enumerate(SPLITS) if (mean := means.splits[split])]
        for at, mean in points:
            error = mean.standard_error
            if error is not None and all_finite(error):
                axes.plot([at, at], [mean.mean - error, mean.mean + error], color=style.colour)
        axes.plot(
            [at for at, _ in points], [mean.mean for _, mean in points], color=style.colour, marker=style.marker,
            linestyle=style.line, linewidth=0.9,
        )  # fmt: skip
        if means.best_other is not None and all_finite(means.best_other):
            axes.plot([2 + aside], [means.best_other], marker="_", markersize=9, color=style.colour, linestyle="")
    axes.set_xticks(range(len(SPLITS)), ["train", "valid.", "held-out"])
    axes.set_xlim(-0.45, 2.45)
    axes.grid(visible=False, axis="x")
    few_ticks(axes.yaxis, 4)


FIGURE = Drawing(
    title=TITLE,
    caption="How far the selected checkpoint's train and validation means hold on held-out cases; a dash above an "
    "entry's held-out mark is regret: a checkpoint that was not selected would have scored so much.",
    method="Means over repeats with their standard error, of one repeat over its episodes; train is over those that "
    "the checkpoint played, and checkpoints that were not selected are known after `post-hoc`.",
    draw=draw,
    needs=("generalisation",),
)
