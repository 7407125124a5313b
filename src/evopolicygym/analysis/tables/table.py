"""A table: rows of cells under columns; and its formats CSV, Markdown and LaTeX, each with its own escaping."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from evopolicygym.analysis.ranking.bootstrap import Interval
from evopolicygym.core.errors import UnknownName
from evopolicygym.core.text import csv_line, csv_text, decimals, printable

AT_LEAST = "≥ "
"""What a lower bound is shown with."""
SMALLEST_SHOWN = 1e-4
"""Smaller p-values are shown as this."""


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
    is_lower_bound: bool = False
    """Whether the true value may be larger."""
    is_best: bool = False
    """Whether it is the best of those that it is compared with: LaTeX has it in bold."""


@dataclass(frozen=True, slots=True)
class Ends:
    """The two ends of an interval."""

    low: float
    high: float
    digits: int
    """Decimals that are shown."""


Cell = str | int | float | Number | Ends | None
"""None if there is nothing to say."""


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


def with_left_out(tables: Sequence[Table], problems: Iterable[tuple[str, str]]) -> list[Table]:
    """Return tables of which the last has notes on what is left out, from (run, reason) pairs: one for each reason."""
    by_reason: dict[str, list[str]] = {}
    for run, reason in problems:
        by_reason.setdefault(reason.rstrip("."), []).append(run)
    notes = tuple(f"Left out: {', '.join(runs)}: {reason}." for reason, runs in by_reason.items())
    return [*tables[:-1], replace(tables[-1], notes=(*tables[-1].notes, *notes))] if tables else []


def side_by_side(table: Table, other: Table, key: str) -> Table:
    """Return a table with the columns of another one, whose rows are matched by a column that both have."""
    own, others = ([column.key for column in each.columns] for each in (table, other))
    known = {row[others.index(key)]: row for row in other.rows}
    added = [at for at, name in enumerate(others) if name not in own]
    rows = tuple(
        (*row, *((match[at] if (match := known.get(row[own.index(key)])) else None) for at in added))
        for row in table.rows
    )
    return Table(table.title, (*table.columns, *(other.columns[at] for at in added)), rows, table.notes)


def table_of(title: str, names: Iterable[str], rows: Iterable[tuple[Cell, ...]]) -> Table:
    """Return rows under names; a column is text where any of its cells is."""
    all_rows = tuple(rows)
    columns = (
        Column(name.replace(" ", "_"), name, any(isinstance(row[at], str) for row in all_rows))
        for at, name in enumerate(names)
    )
    return Table(title, tuple(columns), all_rows)


FORMATS = ("csv", "markdown", "latex")
_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "_": r"\_", "%": r"\%",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\textquotedbl{}", "±": r"$\pm$", "≥": r"$\geq$", "[": "{[}", "]": "{]}",
}  # fmt: skip
SMALL, LARGE = 10, 1000
"""Numbers below these without digits of their own are shown with three decimals, and with two."""
_MARKDOWN = {char: f"\\{char}" for char in "\\`*_{}[]()#+!|~$^="} | {"<": "&lt;", ">": "&gt;", "&": "&amp;"}


def format_tables(tables: Sequence[Table], form: str) -> str:
    """Return tables in a format, for CSV as one table; raise ``UnknownName`` for an unknown format."""
    if form == "csv":
        return _csv(join_tables(tables))
    writers: Mapping[str, Callable[[Table], str]] = {"markdown": _markdown, "latex": _latex}
    if form not in writers:
        raise UnknownName("format", form, FORMATS)
    return "\n".join(writers[form](table) for table in tables)


def join_tables(tables: Sequence[Table]) -> Table:
    """Return tables as one with all their columns; with several tables, a column holds each row's title."""
    if len(tables) == 1:
        return tables[0]
    columns = {column.key: column for table in tables for column in table.columns}
    rows: list[tuple[Cell, ...]] = []
    for table in tables:
        keys = [column.key for column in table.columns]
        for row in table.rows:
            cells = dict(zip(keys, row, strict=True))
            rows.append((table.title, *(cells.get(key) for key in columns)))
    notes = tuple(dict.fromkeys(note for table in tables for note in table.notes))
    return Table("", (Column("table", "table", is_text=True), *columns.values()), tuple(rows), notes)


def cell_text(cell: Cell) -> str:
    """Return a cell as people read it; a dash for nothing. Text that can't be printed is spelled out."""
    match cell:
        case None:
            return "-"
        case str():
            return printable(cell)
        case Number():
            return _number(cell)
        case Ends():
            low, high = (f"{end:,.{cell.digits}f}" for end in (cell.low, cell.high))
            return f"{low} to {high}"
        case float():
            return _number(Number(cell, 3 if abs(cell) < SMALL else 2 if abs(cell) < LARGE else 0))
        case _:
            return f"{cell:,}"


def _number(number: Number) -> str:
    if number.percent:
        ends = number.interval
        return f"{100 * number.value:.3g}%" + (f" [{100 * ends.low:.3g}, {100 * ends.high:.3g}]" if ends else "")
    digits = _decimals(number) if number.digits is None else number.digits
    text = (AT_LEAST if number.is_lower_bound else "") + f"{number.value:,.{digits}f}"
    if number.error is not None:
        text += f" ± {number.error:,.{digits}f}"
    if number.interval is not None:
        text += f" [{number.interval.low:,.{digits}f}, {number.interval.high:,.{digits}f}]"
    return text


def _decimals(number: Number) -> int:
    ends = number.interval
    return decimals(number.value, (ends.high - ends.low) / 4 if ends and number.error is None else number.error)


def _csv(table: Table) -> str:
    """Return comma-separated values in full: standard errors and ends of intervals have columns of their own."""
    parts = {at: _parts(row[at] for row in table.rows) for at in range(len(table.columns))}
    names = (_name(column.key, part) for at, column in enumerate(table.columns) for part in parts[at])
    rows = ((_plain(cell, part) for at, cell in enumerate(row) for part in parts[at]) for row in table.rows)
    return "".join(map(csv_line, (names, *rows)))


def _name(key: str, part: str) -> str:
    """Return the name of a part of a column; whether a value is a bound has no unit."""
    bare = key.removesuffix("_usd") if part == "is_lower_bound" else key
    return f"{bare}_{part}" if part else key


def _parts(cells: Iterable[Cell]) -> list[str]:
    all_cells = list(cells)
    if any(isinstance(cell, Ends) for cell in all_cells):
        return ["low", "high"]
    numbers = [cell for cell in all_cells if isinstance(cell, Number)]
    parts = [""]
    parts += ["standard_error"] if any(number.error is not None for number in numbers) else []
    parts += ["is_lower_bound"] if any(number.is_lower_bound for number in numbers) else []
    return parts + (["low", "high"] if any(number.interval is not None for number in numbers) else [])


def _plain(cell: Cell, part: str) -> str:
    if isinstance(cell, Number):
        if part == "is_lower_bound":
            return str(cell.is_lower_bound).lower()
        ends = (cell.interval.low, cell.interval.high) if cell.interval else (None, None)
        value = {"": cell.value, "standard_error": cell.error, "low": ends[0], "high": ends[1]}[part]
        return "" if value is None else repr(value if isinstance(value, int) else float(value))
    if isinstance(cell, Ends):
        return repr(cell.low if part == "low" else cell.high)
    if cell is None or part:
        return ""
    if isinstance(cell, str):
        return csv_text(printable(cell))
    return repr(cell)


def _markdown(table: Table) -> str:
    lines = [f"**{_escape(table.title, _MARKDOWN)}**", ""]
    lines.append("| " + " | ".join(_escape(column.heading, _MARKDOWN) for column in table.columns) + " |")
    lines.append("|" + "|".join(" --- " if column.is_text else " ---: " for column in table.columns) + "|")
    lines += ["| " + " | ".join(_escape(cell_text(cell), _MARKDOWN) for cell in row) + " |" for row in table.rows]
    lines += ["", *(f"- {_escape(note, _MARKDOWN)}" for note in table.notes)] if table.notes else []
    return "\n".join(lines) + "\n"


def _latex(table: Table) -> str:
    layout = "".join("l" if column.is_text else "r" for column in table.columns)
    lines = [f"% {printable(table.title)}; needs \\usepackage{{booktabs}}"]
    lines += [f"\\begin{{tabular}}{{{layout}}}", "\\toprule"]
    lines.append(" & ".join(_escape(column.heading, _LATEX) for column in table.columns) + r" \\")
    lines.append("\\midrule")
    lines += [" & ".join(map(_in_latex, row)) + r" \\" for row in table.rows]
    lines += ["\\bottomrule", "\\end{tabular}", *(f"% {printable(note)}" for note in table.notes)]
    return "\n".join(lines) + "\n"


def _in_latex(cell: Cell) -> str:
    """Return a cell with minus signs in place of hyphens, in bold if it is the best."""
    if cell is None:
        return "--"
    text = _escape(cell_text(cell), _LATEX)
    if isinstance(cell, str):
        return text
    text = text.replace("-", "$-$")
    return f"\\textbf{{{text}}}" if isinstance(cell, Number) and cell.is_best else text


def in_markdown(text: str) -> str:
    """Return a text as Markdown that shows it as it is, in one line."""
    return _escape(text, _MARKDOWN)


def _escape(text: str, table: Mapping[str, str]) -> str:
    return "".join(table.get(char, char) for char in printable(text))
