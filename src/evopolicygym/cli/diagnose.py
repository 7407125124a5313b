"""``evopolicygym diagnose``: how an agent improved, in one run or over many."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evopolicygym.cli.console import number, out

if TYPE_CHECKING:
    from evopolicygym.analysis.diagnostics.base import Cell, Table

EXAMPLES = """
Examples:

evopolicygym diagnose RUN

evopolicygym diagnose runs --only edits --format markdown   (all runs below runs/, by entry and kind of task)
"""
SMALL = 10
"""Below it a number is shown with three digits behind the point."""


class Format(StrEnum):
    """How tables are written."""

    TABLE = "table"
    CSV = "csv"
    MARKDOWN = "markdown"


def diagnose(
    runs: Annotated[list[Path], typer.Argument(help="Directories of runs, or directories with runs below them.")],
    only: Annotated[list[str] | None, typer.Option(help="A diagnostic's name; may be given several times.")] = None,
    form: Annotated[Format, typer.Option("--format", help="How tables are written.")] = Format.TABLE,
    as_json: Annotated[bool, typer.Option("--json", help="Print all that is measured as JSON.")] = False,
) -> None:
    """Tell how an agent improved: of one run by submission, of many by agent and kind of task."""
    from evopolicygym.analysis.diagnostics.base import DIAGNOSTICS, group_of, in_short, over_runs
    from evopolicygym.records.reader import read_run

    diagnostics = {name: DIAGNOSTICS.load(name) for name in only or DIAGNOSTICS.names()}
    groups, measured = [], []
    roots = _roots(runs)
    for root in roots:
        record = read_run(root)
        groups.append(group_of(record.state))
        measured.append({name: diagnostic.measure(record) for name, diagnostic in diagnostics.items()})
    together = [
        over_runs(name, diagnostic, [(group, one[name]) for group, one in zip(groups, measured, strict=True)])
        for name, diagnostic in diagnostics.items()
    ]
    if as_json:
        _print_json(roots, measured, together)
    elif len(roots) > 1:
        _print([(table, None) for table in together], form)
    else:
        parts = [(name, diagnostic, measured[0][name]) for name, diagnostic in diagnostics.items()]
        _print([(one.table(found), in_short(name, one, found)) for name, one, found in parts], form)


def _roots(given: Sequence[Path]) -> list[Path]:
    """Return the directories of all runs that are meant, each once."""
    from evopolicygym.records.reader import find_runs

    return list(dict.fromkeys(root for path in given for root in (list(find_runs(path)) or [path])))


def _print_json(roots: list[Path], measured: list[dict[str, Any]], together: "list[Table]") -> None:
    from dataclasses import asdict

    from evopolicygym.records.jsontext import dumps

    runs = [
        {"run": str(root), **{name: asdict(one) for name, one in found.items()}}
        for root, found in zip(roots, measured, strict=True)
    ]
    tables = {table.title: [dict(zip(table.columns, row, strict=True)) for row in table.rows] for table in together}
    typer.echo(dumps({"runs": runs, "together": tables}, indent=2))


def _print(parts: "Sequence[tuple[Table, Table | None]]", form: Format) -> None:
    """Print tables, each with what is to be said in short of the same, where there is that."""
    show = {Format.TABLE: _print_table, Format.CSV: _print_csv, Format.MARKDOWN: _print_markdown}[form]
    for place, (table, short) in enumerate(parts):
        if place:
            typer.echo()
        show(table)
        if short and form is Format.TABLE:
            _print_line(short)
        elif short:
            typer.echo()
            show(short)


def _print_line(short: "Table") -> None:
    from rich.text import Text

    told = (f"{name} {_shown(value)}" for name, value in short.rows if value is not None)
    out().print(Text(f" {'; '.join(told)}", "dim"), soft_wrap=False)


def _print_table(table: "Table") -> None:
    from rich.table import Table as RichTable
    from rich.text import Text

    drawn = RichTable(title=Text(table.title, "bold"), title_justify="left", box=None, padding=(0, 1))
    for name, is_text in zip(table.columns, _are_texts(table), strict=True):
        drawn.add_column(Text(name, "dim"), justify="left" if is_text else "right")
    for row in table.rows:
        drawn.add_row(*(Text(_shown(cell)) for cell in row))
    out().print(drawn)


def _print_csv(table: "Table") -> None:
    import csv
    import sys

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([f"# {table.title}"])
    writer.writerows([table.columns, *table.rows])


def _print_markdown(table: "Table") -> None:
    marks = ("---" if is_text else "---:" for is_text in _are_texts(table))
    typer.echo(f"**{table.title}**\n")
    for row in (table.columns, tuple(marks), *(tuple(map(_shown, row)) for row in table.rows)):
        typer.echo(f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in row)} |")


def _are_texts(table: "Table") -> list[bool]:
    return [any(isinstance(row[place], str) for row in table.rows) for place in range(len(table.columns))]


def _shown(cell: "Cell") -> str:
    """Return a cell as a person likes to read it, on one line."""
    match cell:
        case str():
            return " ".join("".join(char if char.isprintable() else " " for char in cell).split())
        case None:
            return "-"
        case int():
            return f"{cell:,}"
        case _:
            return number(cell, 3 if abs(cell) < SMALL else 2)
