"""A table: rows of cells under columns, ready to be printed or written.

Which tables there are is described in ``contents.py``; how one becomes text, in ``formats.py``.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from evopolicygym.analysis.ranking.bootstrap import Interval


@dataclass(frozen=True, slots=True)
class Number:
    """A number with what is known of its uncertainty."""

    value: float
    digits: int | None = 3
    """Decimals; None for those that the standard error or the interval leaves."""
    error: float | None = None
    """Its standard error."""
    interval: Interval | None = None
    percent: bool = False
    is_best: bool = False
    """Whether it is the best of those that it is compared with: LaTeX has it in bold."""


@dataclass(frozen=True, slots=True)
class Ends:
    """Two numbers that something lies between, such as an interval's ends."""

    low: float
    high: float
    digits: int
    """Decimals that are shown."""


Cell = str | int | float | Number | Ends | None
"""None where there is nothing to say."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its key for programs, its heading for people."""

    key: str
    heading: str
    is_text: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under columns, each as long as there are columns."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()


def side_by_side(table: Table, other: Table, key: str) -> Table:
    """Return a table with the columns of another one, whose rows are of the same things by a column that both have."""
    own, others = ([column.key for column in one.columns] for one in (table, other))
    known = {row[others.index(key)]: row for row in other.rows}
    added = [at for at, name in enumerate(others) if name not in own]
    rows = tuple(
        (*row, *((found[at] if (found := known.get(row[own.index(key)])) else None) for at in added))
        for row in table.rows
    )
    return Table(table.title, (*table.columns, *(other.columns[at] for at in added)), rows, table.notes)


def table_of(title: str, names: Iterable[str], rows: Iterable[tuple[Cell, ...]]) -> Table:
    """Return rows under names; a column is text where any of its cells is."""
    found = tuple(rows)
    columns = (
        Column(name.replace(" ", "_"), name, any(isinstance(row[at], str) for row in found))
        for at, name in enumerate(names)
    )
    return Table(title, tuple(columns), found)
