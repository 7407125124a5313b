"""What records and tables hold, on a terminal: nothing in it acts on the terminal or is taken for markup.

Escapes and direction marks are spelled out, whoever wrote them; styles and colours that the program itself gives pass.
Other formats of tables are written by ``analysis/tables/formats.py``.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table as Grid
from rich.text import Text

from evopolicygym.core.printable import printable, printable_lines

if TYPE_CHECKING:
    from evopolicygym.analysis.results import Problem
    from evopolicygym.analysis.tables.table import Table


class PrintingConsole(Console):
    """A console for texts that come from records."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render as any console does, every text printable."""
        for segment in super().render(renderable, options):
            text = segment.text
            as_it_is = segment.control or text == "\n" or text.isprintable()
            yield segment if as_it_is else segment._replace(text=printable_lines(text))


def print_table(console: Console, table: "Table") -> None:
    """Print a table; no text in it is taken for markup. It is as wide as it needs to be when piped."""
    from evopolicygym.analysis.tables.formats import shown

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


def tell_notes(console: Console, tables: "Iterable[Table]") -> None:
    """Print the notes of tables that are written in a format without a place for them."""
    for note in dict.fromkeys(note for table in tables for note in table.notes):
        console.print(f"Note: {note}", soft_wrap=True, markup=False)


def tell_problems(console: Console, problems: "Sequence[Problem]") -> None:
    """Print which runs are not in the tables, and why."""
    for problem in problems:
        console.print(Text(f"left out: {printable(str(problem.root))}: {problem.reason}", "yellow"), soft_wrap=True)
