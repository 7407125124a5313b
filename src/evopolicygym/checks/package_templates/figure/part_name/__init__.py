"""A figure: held-out scores of all runs, a row for each entry on each task."""

from evopolicygym.analysis.drawing.canvas import Figure, panels, placeholder_figure, with_style
from evopolicygym.analysis.drawing.figure import Drawing, entry_styles, short_names
from evopolicygym.analysis.report_data import ReportData

TITLE = "Held-out scores of all runs"


@with_style
def draw(data: ReportData) -> Figure:
    """Return the figure of any runs, none included; the same runs give the same figure."""
    scored = [(run.result, run.result.score) for run in data.runs if run.result.score is not None]
    if not scored:
        return placeholder_figure(TITLE, "No run has a score.")
    rows = sorted({(run.task, run.agent) for run, _ in scored}, reverse=True)
    styles, names = entry_styles(data), short_names(label for _, label in rows)
    figure, (axes,) = panels(TITLE, [""], columns=1, height=1.0 + 0.2 * len(rows))
    for run, score in scored:
        style = styles[run.agent]
        axes.plot([score], [rows.index((run.task, run.agent))], style.marker, color=style.colour)
    axes.set_yticks(range(len(rows)), [f"{task}, {names[label]}" for task, label in rows])
    axes.set_xlabel("held-out mean return")
    return figure


FIGURE = Drawing(
    TITLE,
    "Each mark is the held-out score of a run.",
    "Means over the held-out cases of each run's selected submission.",
    draw,
)
