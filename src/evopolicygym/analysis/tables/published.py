"""Tables of published results: figures of other protocols, and the grid of harnesses by models."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from evopolicygym.analysis.published.score_tables import ANCHOR, FiguresOfTask, OtherFigures
from evopolicygym.analysis.ranking.leaderboard import Leaderboard, Score, Standing
from evopolicygym.analysis.tables.table import Cell, Column, Number, Table

TITLE = "Published elsewhere, under other protocols"
LEFT_OUT = "CSV leaves out what was published elsewhere: leaderboard --tables published --format csv writes it alone."


def figures_table(figures: OtherFigures) -> Table:
    """Return tasks by entries: their means, in no order of merit, and how each task's protocol differs from ours."""
    labels = list(dict.fromkeys(figure.label for task in figures.tasks for figure in task.figures))
    columns = (
        Column("task", "task", is_text=True),
        Column("suite", "suite", is_text=True),
        Column("metric", "metric", is_text=True),
        *(Column(label, label) for label in labels),
        Column("protocol", "how the protocol differs", is_text=True),
    )
    rows = []
    for task in figures.tasks:
        means = {figure.label: Number(figure.score, None) for figure in task.figures}
        how = ", ".join(task.protocol.differences)
        rows.append((task.name, task.suite, task.metric, *(means.get(label) for label in labels), how))
    return Table(TITLE, columns, tuple(rows), figures.notes)


def figures_in_long(figures: OtherFigures) -> Table:
    """Return the same in long format, a row for each entry on each task, as CSV has it."""
    names = ("task", "suite", "metric", "entry", "score", "protocol")
    columns = tuple(Column(name, name, is_text=name != "score") for name in names)
    rows = tuple(
        (
            task.name,
            task.suite,
            task.metric,
            figure.label,
            Number(figure.score, None),
            ", ".join(task.protocol.differences),
        )
        for task in figures.tasks
        for figure in task.figures
    )
    return Table(TITLE, columns, rows, figures.notes)


def with_note_of_figures(table: Table, figures: Sequence[OtherFigures]) -> Table:
    """Return a table with a note where CSV leaves out what others published."""
    return replace(table, notes=(*table.notes, LEFT_OUT)) if any(published.tasks for published in figures) else table


def with_figures(tables: Sequence[Table], board: Leaderboard, published: Mapping[str, FiguresOfTask]) -> list[Table]:
    """Return the tables of a leaderboard's tasks, with a note where figures of a task were published elsewhere."""
    notes = {task.name: (figures_note(figures),) for task in board.tasks if (figures := published.get(task.name))}
    return [
        replace(table, notes=(*table.notes, *notes.get(task.name, ())))
        for table, task in zip(tables, board.tasks, strict=True)
    ]


def figures_note(task_figures: FiguresOfTask) -> str:
    """Return the published figures of a task in a sentence, which says that the protocol differs."""
    figures = "; ".join(f"{figure.label}: {figure.score:,.4g}" for figure in task_figures.figures)
    how = ", ".join(task_figures.protocol.differences)
    return f"Published elsewhere, under another protocol ({how}), and not ranked: {figures}."


def figures_document(figures: OtherFigures) -> dict[str, Any]:
    """Return the figures for programs."""
    return {
        "source": figures.source,
        "date": figures.date,
        "version": figures.version,
        "notes": list(figures.notes),
        "tasks": [
            {
                "suite": task.suite,
                "name": task.name,
                "id": task.id or None,
                "metric": task.metric,
                "protocol_differs": list(task.protocol.differences),
                "figures": [
                    {"entry": figure.entry, "effort": figure.effort, "score": figure.score} for figure in task.figures
                ],
            }
            for task in figures.tasks
        ],
    }


NO_MODEL = "no model"
SEVERAL = "A cell of several entries (labels, programs, knobs) has the mean of theirs, without an interval."
MEANS_ALONE = "Entries that were published as means have no harness of their own in a record: they are left out."
Grid = Mapping[tuple[str, str], Sequence[Standing]]
"""The standings by harness and model."""


def harness_tables(board: Leaderboard) -> list[Table]:
    """Return normalised scores and rank scores of harnesses (rows) by models with their efforts (columns)."""
    grid = _grid(board)
    tables = [
        _table("Normalised score, harness by model", grid, lambda standing: standing.normalised),
        _table("Rank score, harness by model", grid, lambda standing: standing.rank_score),
    ]
    notes = [*board.notes]
    notes += [SEVERAL] if any(len(cell) > 1 for cell in grid.values()) else []
    bare = [standing for standing in board.standings if standing.entry.kind != ANCHOR and not standing.entry.runs]
    notes += [MEANS_ALONE] if bare else []
    return [*tables[:-1], replace(tables[-1], notes=tuple(notes))]


def harnesses_table(board: Leaderboard) -> Table:
    """Return the same in long format, a row for each harness and model, as CSV has it."""
    columns = (
        Column("harness", "harness", is_text=True), Column("model", "model", is_text=True),
        Column("entries", "entries"), Column("normalised", "normalised"), Column("rank_score", "rank score"),
    )  # fmt: skip
    rows = tuple(
        (
            harness, model, len(cell), _cell(cell, lambda standing: standing.normalised),
            _cell(cell, lambda standing: standing.rank_score),
        )
        for (harness, model), cell in sorted(_grid(board).items())
    )  # fmt: skip
    return Table("Harness by model", columns, rows, harness_tables(board)[-1].notes)


def _grid(board: Leaderboard) -> Grid:
    grid: dict[tuple[str, str], list[Standing]] = defaultdict(list)
    for standing in board.standings:
        if standing.entry.harness:
            effort = f"@{standing.entry.effort}" if standing.entry.effort else ""
            grid[standing.entry.harness, (standing.entry.model or NO_MODEL) + effort].append(standing)
    return grid


def _table(title: str, grid: Grid, score: Callable[[Standing], Score | None]) -> Table:
    harnesses, models = sorted({harness for harness, _ in grid}), sorted({model for _, model in grid})
    columns = (Column("harness", "harness", is_text=True), *(Column(model, model) for model in models))
    rows = tuple((name, *(_cell(grid.get((name, model), ()), score) for model in models)) for name in harnesses)
    return Table(title, columns, rows)


def _cell(standings: Sequence[Standing], score: Callable[[Standing], Score | None]) -> Cell:
    """Return the mean over a cell's entries; None without such an entry."""
    scores = [known for standing in standings if standing.has_score and (known := score(standing)) is not None]
    if not scores:
        return None
    return Number(fmean(score.value for score in scores), interval=scores[0].interval if len(scores) == 1 else None)
