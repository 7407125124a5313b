"""``evopolicygym diagnose``: show how an agent improved, in one run or over many."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from evopolicygym.analysis.tables.table import cell_text, format_tables
from evopolicygym.cli.options import RunsArgument, RunsBelow, split_names
from evopolicygym.cli.output import err, out, print_json, print_text
from evopolicygym.cli.tables import print_problems, print_table, print_tables
from evopolicygym.core.directories import DEFAULT_RUNS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evopolicygym.analysis.tables.table import Table

EXAMPLES = """
Examples:

evopolicygym diagnose RUN

evopolicygym diagnose runs --only edits --format markdown   (all runs below runs/, by entry and kind of task)
"""


class Format(StrEnum):
    """How tables are written."""

    TABLE = "table"
    CSV = "csv"
    MARKDOWN = "markdown"
    LATEX = "latex"


def diagnose(
    runs: RunsArgument,
    only: Annotated[
        list[str] | None, typer.Option(help="A diagnostic's name; several with commas, or given several times.")
    ] = None,
    form: Annotated[Format, typer.Option("--format", help="How tables are written.")] = Format.TABLE,
    below: RunsBelow = DEFAULT_RUNS,
    as_json: Annotated[bool, typer.Option("--json", help="Print all measurements as JSON.")] = False,
) -> None:
    """Show how an agent improved: one run by submission, several by agent and kind of task."""
    from evopolicygym.api.read import diagnosis

    result = diagnosis.diagnose(runs, split_names(",".join(only or ())), runs=below)
    if as_json:
        print_json(result.document)
        return
    print_problems(err(), result.problems)
    if form is Format.CSV:
        print_tables(result.csv_tables, form.value)
    else:
        _print(result.parts, form)


def _print(parts: "Sequence[tuple[Table, Table | None]]", form: Format) -> None:
    """Print tables, each followed by its summary if it has one."""
    for index, (table, summary) in enumerate(parts):
        if index:
            print_text("")
        if form is Format.TABLE:
            print_table(out(), table)
            if summary:
                _print_summary(summary)
        else:
            tables = (table, summary) if summary else (table,)
            print_text(format_tables(tables, form.value), end="")


def _print_summary(summary: "Table") -> None:
    texts = (f"{name} {cell_text(value)}" for name, value in summary.rows if value is not None)
    out().print(Text(f" {'; '.join(texts)}", "dim"), soft_wrap=False)
