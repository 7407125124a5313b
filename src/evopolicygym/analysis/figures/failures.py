"""Failures: submissions that could not be loaded, episodes that failed, and the share that was mended."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

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
from evopolicygym.analysis.drawing.figure import COLOURS, HATCHES, Drawing, short_names
from evopolicygym.analysis.report_data import ReportData
from evopolicygym.core.rollout import FailureReason
from evopolicygym.core.submission import SubmissionStatus

TITLE = "Failures"
MOST = 25
"""Entries that are shown, the best."""
LONGEST = 24
STATUSES = tuple(
    status.value for status in SubmissionStatus if status not in {SubmissionStatus.OK, SubmissionStatus.INTERRUPTED}
)
REASONS = tuple(reason.value for reason in FailureReason)
PARTS = (*STATUSES, *REASONS)
NARROWEST = 10.0
"""Percent of the shortest axis."""


@with_style
def draw(data: ReportData) -> Figure:
    """Return the figure."""
    runs = [(run.result.agent, counts) for run, counts in data.measured("failures")]
    entries = [label for label in data.labels if any(own == label for own, _ in runs)][:MOST]
    if not entries:
        return placeholder_figure(TITLE, "No run's failures are known.")
    shown = short_names(entries, LONGEST)
    titles = ["submissions not loaded", "train episodes failed"]
    figure, (left, right) = panels(TITLE, titles, columns=2, height=0.9 + 0.26 * len(entries), sharey=True)
    for row, label in enumerate(entries):
        own = [counts for entry, counts in runs if entry == label]
        submissions = sum(len(counts.submissions) for counts in own)
        episodes = sum(counts.episodes for counts in own)
        _draw_shares(left, row, _sum_counts(counts.statuses for counts in own), STATUSES, submissions)
        _draw_shares(right, row, _sum_counts(counts.reasons for counts in own), REASONS, episodes)
        outcomes = [
            submission.mended for counts in own for submission in counts.submissions if submission.mended is not None
        ]
        if outcomes:
            right.text(
                1.02, row, f"{sum(outcomes)}/{len(outcomes)}", transform=right.get_yaxis_transform(), va="center",
                fontsize=SMALL,
            )  # fmt: skip
    right.text(1.02, 1.02, "mended", transform=right.transAxes, fontsize=SMALL)
    for axes, what in (
        (left, "of all submissions (%)"),
        (right, "of all train episodes (%)"),
    ):
        name_rows(axes, [shown[label] for label in entries])
        axes.set_xlim(0, max(NARROWEST, axes.dataLim.x1 * 1.05))
        axes.set_xlabel(what)
    met = {part for _, counts in runs for part in (*counts.statuses, *counts.reasons)}
    add_legend(figure, keys=[_bar_key(part) for part in PARTS if part in met])
    return figure


def _sum_counts(counts: Iterable[Mapping[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    return total


def _draw_shares(axes: Axes, row: int, counts: Mapping[str, int], parts: Sequence[str], whole: int) -> None:
    left = 0.0
    for part in parts:
        if counts.get(part) and whole:
            width = 100 * counts[part] / whole
            axes.barh(row, width, left=left, height=0.6, **_bar(part))
            left += width
    if not left:
        axes.text(0.01, row, "none", transform=axes.get_yaxis_transform(), va="center", fontsize=SMALL)


def _bar(part: str) -> dict[str, Any]:
    index = PARTS.index(part)
    hatch = HATCHES[(index + index // len(COLOURS)) % len(HATCHES)]
    return {"facecolor": COLOURS[index % len(COLOURS)], "hatch": hatch, "edgecolor": "white", "linewidth": 0.4}


def _bar_key(part: str) -> Patch:
    what = "not loaded" if part in STATUSES else "failed"
    return Patch(label=f"{what}: {part.replace('_', ' ')}", **_bar(part))


FIGURE = Drawing(
    title=TITLE,
    caption="What went wrong: the share of submissions that could not be loaded and of train episodes in which the "
    "policy failed, by cause, and how many faulty submissions the next one mended.",
    method="All submissions and train episodes of all runs of an entry are counted together; mended means that the "
    "next submission was loaded and shows none of the failures.",
    draw=draw,
    needs=("failures",),
)
