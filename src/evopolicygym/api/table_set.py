"""Tables that a program is given: as records, as JSON, and as a notebook shows them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from evopolicygym.analysis.results import Problem
from evopolicygym.analysis.tables.formats import shown, written
from evopolicygym.analysis.tables.table import Cell, Ends, Number, Table


@dataclass(repr=False, eq=False)
class TableSet:
    """Some tables that belong together. The first one is what was asked for; further ones stand beside it."""

    tables: tuple[Table, ...]
    """The tables: a title, columns with a key and a heading, rows, notes."""
    document: Mapping[str, Any]
    """The same as JSON has it, with all intervals and notes."""
    problems: tuple[Problem, ...] = ()
    """The runs that could not be used, each with its reason."""

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
        return written(self.csv_tables if form == "csv" else self.tables, form)

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
    rows = "".join(f"<tr>{''.join(f'<td>{escape(shown(cell))}</td>' for cell in row)}</tr>" for row in table.rows)
    notes = "".join(f"<li>{escape(note)}</li>" for note in table.notes)
    html = f"<table><caption>{escape(table.title)}</caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    return f"{html}<ul>{notes}</ul>" if notes else html
