"""``TableSet``: tables that belong together, in every format, as most verbs that read return them."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from html import escape
from typing import Any

from evopolicygym.analysis.tables.table import Cell, Ends, Number, Table, cell_text, format_tables, with_left_out
from evopolicygym.records.reader import Problem


class TableSet:
    """Tables that belong together. The first one answers the question; further ones add to it."""

    def __init__(self, problems: Sequence[Problem] = ()) -> None:
        self.problems = tuple(problems)
        """The runs that could not be used, each with its reason."""

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        """The tables: a title, columns with a key and a heading, rows, notes."""
        raise NotImplementedError

    @cached_property
    def document(self) -> Mapping[str, Any]:
        """The same as JSON has it, with all intervals and notes."""
        raise NotImplementedError

    @property
    def records(self) -> list[dict[str, Any]]:
        """The rows of the first table by the keys of its columns, as ``pandas.DataFrame`` takes them."""
        if not self.tables:
            return []
        keys = [column.key for column in self.tables[0].columns]
        return [dict(zip(keys, map(_value, row), strict=True)) for row in self.tables[0].rows]

    @property
    def notes(self) -> list[str]:
        """What a reader of the tables should know, such as runs that were left out; each note once."""
        return list(dict.fromkeys(note for table in self.tables for note in table.notes))

    def written(self, form: str = "markdown") -> str:
        """Return the tables as ``markdown``, ``latex`` or ``csv`` (one table); raise ``UnknownName`` for another."""
        if form == "csv":
            return format_tables(self.csv_tables, form)
        left_out = ((str(problem.root), problem.reason) for problem in self.problems)
        return format_tables(with_left_out(self.tables, left_out), form)

    def to_markdown(self) -> str:
        """Return the tables as Markdown."""
        return self.written("markdown")

    def to_latex(self) -> str:
        """Return the tables as LaTeX, for the package booktabs."""
        return self.written("latex")

    def to_csv(self) -> str:
        """Return one table of comma-separated values, with standard errors and ends of intervals as columns."""
        return self.written("csv")

    @property
    def csv_tables(self) -> Sequence[Table]:
        """What CSV holds; where these are several, they are written as one."""
        return self.tables

    def __repr__(self) -> str:
        titles = ", ".join(table.title for table in self.tables if table.title)
        return f"<{type(self).__name__}: {titles or f'{len(self.tables)} tables'}>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        return "".join(map(_html, self.tables))


def _value(cell: Cell) -> str | float | list[float] | None:
    match cell:
        case Number():
            return cell.value
        case Ends():
            return [cell.low, cell.high]
        case _:
            return cell


def _html(table: Table) -> str:
    head = "".join(f"<th>{escape(column.heading)}</th>" for column in table.columns)
    rows = "".join(f"<tr>{''.join(f'<td>{escape(cell_text(cell))}</td>' for cell in row)}</tr>" for row in table.rows)
    notes = "".join(f"<li>{escape(note)}</li>" for note in table.notes)
    html = f"<table><caption>{escape(table.title)}</caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    return f"{html}<ul>{notes}</ul>" if notes else html
