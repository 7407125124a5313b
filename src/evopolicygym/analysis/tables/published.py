"""What stands in the table of figures that others published under a protocol of their own."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from evopolicygym.analysis.published.other_protocol import FiguresOfTask, OtherFigures
from evopolicygym.analysis.ranking.leaderboard import Leaderboard
from evopolicygym.analysis.tables.table import Column, Number, Table

TITLE = "Published elsewhere, under other protocols"
LEFT_OUT = "CSV leaves out what was published elsewhere: leaderboard --with published --format csv writes it alone."


def figures_table(found: OtherFigures) -> Table:
    """Return tasks by entries: their means, in no order of merit, and how each task's protocol differs from ours."""
    labels = list(dict.fromkeys(one.label for task in found.tasks for one in task.figures))
    columns = (
        Column("task", "task", is_text=True),
        Column("suite", "suite", is_text=True),
        Column("metric", "metric", is_text=True),
        *(Column(label, label) for label in labels),
        Column("protocol", "how the protocol differs", is_text=True),
    )
    rows = []
    for task in found.tasks:
        means = {one.label: Number(one.score, None) for one in task.figures}
        how = ", ".join(task.protocol.differences)
        rows.append((task.name, task.suite, task.metric, *(means.get(label) for label in labels), how))
    return Table(TITLE, columns, tuple(rows), found.notes)


def figures_in_long(found: OtherFigures) -> Table:
    """Return the same in long format, a row for each entry on each task, as CSV has it."""
    names = ("task", "suite", "metric", "entry", "score", "protocol")
    columns = tuple(Column(name, name, is_text=name != "score") for name in names)
    rows = tuple(
        (task.name, task.suite, task.metric, one.label, Number(one.score, None), ", ".join(task.protocol.differences))
        for task in found.tasks
        for one in task.figures
    )
    return Table(TITLE, columns, rows, found.notes)


def with_note_of_figures(table: Table, figures: Sequence[OtherFigures]) -> Table:
    """Return a table with a note where CSV leaves out what others published."""
    return replace(table, notes=(*table.notes, LEFT_OUT)) if any(one.tasks for one in figures) else table


def with_figures(tables: Sequence[Table], board: Leaderboard, found: Mapping[str, FiguresOfTask]) -> list[Table]:
    """Return the tables of a leaderboard's tasks, with a note where figures of a task were published elsewhere."""
    notes = {task.name: (figures_note(one),) for task in board.tasks if (one := found.get(task.name))}
    return [
        replace(table, notes=(*table.notes, *notes.get(task.name, ())))
        for table, task in zip(tables, board.tasks, strict=True)
    ]


def figures_note(found: FiguresOfTask) -> str:
    """Return what was published of a task, in a sentence that says that its protocol is another."""
    figures = "; ".join(f"{one.label}: {one.score:,.4g}" for one in found.figures)
    how = ", ".join(found.protocol.differences)
    return f"Published elsewhere, under another protocol ({how}), and not ranked: {figures}."


def figures_document(found: OtherFigures) -> dict[str, Any]:
    """Return the figures for programs."""
    return {
        "source": found.source,
        "date": found.date,
        "version": found.version,
        "notes": list(found.notes),
        "tasks": [
            {
                "suite": task.suite,
                "name": task.name,
                "id": task.id or None,
                "metric": task.metric,
                "protocol_differs": list(task.protocol.differences),
                "figures": [{"entry": one.entry, "effort": one.effort, "score": one.score} for one in task.figures],
            }
            for task in found.tasks
        ],
    }
