"""The one writer of tables: CSV, Markdown and LaTeX, each with its own escaping.

What stands in a table is described in ``contents.py``; terminals are served by ``cli/printing.py``, JSON by
``records/jsontext.py``.
"""

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence

from evopolicygym.analysis.tables.table import Cell, Number, Table
from evopolicygym.core.errors import UnknownName
from evopolicygym.core.number_text import decimals
from evopolicygym.core.printable import printable

FORMATS = ("csv", "markdown", "latex")
_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "_": r"\_", "%": r"\%",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\textquotedbl{}", "±": r"$\pm$", "[": "{[}", "]": "{]}",
}  # fmt: skip
SMALL, LARGE = 10, 1000
"""Below these, numbers without digits of their own are shown with three behind the point, and with two."""
_MARKDOWN = {char: f"\\{char}" for char in "\\`*_{}[]()#+!|~$^="} | {"<": "&lt;", ">": "&gt;", "&": "&amp;"}


def written(tables: Sequence[Table], form: str) -> str:
    """Return tables in a format; raise ``UnknownName`` where there is no such format."""
    writers: Mapping[str, Callable[[Table], str]] = {"csv": _csv, "markdown": _markdown, "latex": _latex}
    if form not in writers:
        raise UnknownName("format", form, writers)
    return "\n".join(writers[form](table) for table in tables)


def shown(cell: Cell) -> str:
    """Return a cell as people read it; a dash for nothing. Text that can't be printed is spelled out."""
    match cell:
        case None:
            return "-"
        case str():
            return printable(cell)
        case Number():
            return _number(cell)
        case float():
            return _number(Number(cell, 3 if abs(cell) < SMALL else 2 if abs(cell) < LARGE else 0))
        case _:
            return f"{cell:,}"


def _number(number: Number) -> str:
    if number.percent:
        return f"{100 * number.value:.3g}%"
    digits = _decimals(number) if number.digits is None else number.digits
    text = f"{number.value:,.{digits}f}"
    if number.error is not None:
        text += f" ± {number.error:,.{digits}f}"
    if number.interval is not None:
        text += f" [{number.interval.low:,.{digits}f}, {number.interval.high:,.{digits}f}]"
    return text


def _decimals(number: Number) -> int:
    ends = number.interval
    return decimals(number.value, (ends.high - ends.low) / 4 if ends and number.error is None else number.error)


def _csv(table: Table) -> str:
    """Return comma-separated values in full: a standard error and an interval's ends have columns of their own."""
    parts = {at: _parts(row[at] for row in table.rows) for at in range(len(table.columns))}
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(
        f"{column.key}_{part}" if part else column.key for at, column in enumerate(table.columns) for part in parts[at]
    )
    for row in table.rows:
        writer.writerow(_plain(cell, part) for at, cell in enumerate(row) for part in parts[at])
    return stream.getvalue()


def _parts(cells: Iterable[Cell]) -> list[str]:
    numbers = [cell for cell in cells if isinstance(cell, Number)]
    parts = [""]
    parts += ["standard_error"] if any(number.error is not None for number in numbers) else []
    return parts + (["low", "high"] if any(number.interval is not None for number in numbers) else [])


def _plain(cell: Cell, part: str) -> str:
    if isinstance(cell, Number):
        ends = (cell.interval.low, cell.interval.high) if cell.interval else (None, None)
        value = {"": cell.value, "standard_error": cell.error, "low": ends[0], "high": ends[1]}[part]
        return "" if value is None else repr(float(value))
    if cell is None or part:
        return ""
    if isinstance(cell, str):  # a spreadsheet takes text that begins so for a formula
        return f"'{printable(cell)}" if cell.startswith(("=", "+", "-", "@")) else printable(cell)
    return repr(cell)


def _markdown(table: Table) -> str:
    lines = [f"**{_escaped(table.title, _MARKDOWN)}**", ""]
    lines.append("| " + " | ".join(_escaped(column.heading, _MARKDOWN) for column in table.columns) + " |")
    lines.append("|" + "|".join(" --- " if column.is_text else " ---: " for column in table.columns) + "|")
    lines += ["| " + " | ".join(_escaped(shown(cell), _MARKDOWN) for cell in row) + " |" for row in table.rows]
    lines += ["", *(f"- {_escaped(note, _MARKDOWN)}" for note in table.notes)] if table.notes else []
    return "\n".join(lines) + "\n"


def _latex(table: Table) -> str:
    layout = "".join("l" if column.is_text else "r" for column in table.columns)
    lines = [f"% {printable(table.title)}; needs \\usepackage{{booktabs}}"]
    lines += [f"\\begin{{tabular}}{{{layout}}}", "\\toprule"]
    lines.append(" & ".join(_escaped(column.heading, _LATEX) for column in table.columns) + r" \\")
    lines.append("\\midrule")
    lines += [" & ".join(_escaped(shown(cell), _LATEX) for cell in row) + r" \\" for row in table.rows]
    lines += ["\\bottomrule", "\\end{tabular}", *(f"% {printable(note)}" for note in table.notes)]
    return "\n".join(lines) + "\n"


def in_markdown(text: str) -> str:
    """Return a text as Markdown that shows it as it is, in one line."""
    return _escaped(text, _MARKDOWN)


def _escaped(text: str, table: Mapping[str, str]) -> str:
    return "".join(table.get(char, char) for char in printable(text))
