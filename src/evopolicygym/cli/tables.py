"""Tables on a terminal, and what is said below them. Other formats are written by ``analysis/tables/formats.py``."""

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from evopolicygym.analysis.results import Problem
from evopolicygym.analysis.tables.formats import shown
from evopolicygym.analysis.tables.table import Table
from evopolicygym.cli.console import err
from evopolicygym.cli.printing import PrintingConsole
from evopolicygym.core.printable import printable


def print_table(console: Console, table: Table) -> None:
    """Print a table; no text in it is taken for markup. It is as wide as it needs to be when piped."""
    grid = Grid(box=None, padding=(0, 1), header_style="dim", title=Text(table.title, "bold"), title_justify="left")
    for column in table.columns:
        grid.add_column(
            Text(column.heading), justify="left" if column.is_text else "right", overflow="fold", no_wrap=column.is_text
        )
    for row in table.rows:
        grid.add_row(*(Text(shown(cell)) for cell in row))
    wide = PrintingConsole(file=console.file, highlight=False, width=10_000)
    console = console if console.is_terminal else wide
    console.print(grid)
    for note in table.notes:
        console.print(Text(f"- {note}", "dim"), soft_wrap=True)


def tell_notes(tables: Iterable[Table]) -> None:
    """Print on stderr the notes of tables that are written in a format without a place for them."""
    for note in dict.fromkeys(note for table in tables for note in table.notes):
        err().print(f"Note: {note}", soft_wrap=True, markup=False)


def tell_problems(problems: Sequence["Problem"]) -> None:
    """Print on stderr which runs are not in the tables, and why."""
    for problem in problems:
        err().print(Text(f"left out: {printable(str(problem.root))}: {problem.reason}", "yellow"), soft_wrap=True)
