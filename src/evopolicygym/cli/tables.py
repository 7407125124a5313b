"""Tables in every output format, with their notes, and the findings of a check."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from evopolicygym.cli.output import err, out, print_json, print_text, printing_console
from evopolicygym.core.errors import UnknownName
from evopolicygym.core.text import printable

if TYPE_CHECKING:
    from evopolicygym.analysis.tables.table import Table
    from evopolicygym.api.read.table_set import TableSet
    from evopolicygym.core.check_result import CheckResult
    from evopolicygym.records.reader import Problem


def print_table(console: Console, table: "Table") -> None:
    """Print a table without interpreting markup; when piped, it is as wide as needed."""
    from evopolicygym.analysis.tables.table import cell_text

    grid = Grid(box=None, padding=(0, 1), header_style="dim", title=Text(table.title, "bold"), title_justify="left")
    for column in table.columns:
        grid.add_column(
            Text(column.heading), justify="left" if column.is_text else "right", overflow="fold", no_wrap=column.is_text
        )
    for row in table.rows:
        grid.add_row(*(Text(cell_text(cell)) for cell in row))
    wide = printing_console(file=console.file, width=10_000)
    console = console if console.is_terminal else wide
    console.print(grid)
    for note in table.notes:
        console.print(Text(f"- {note}", "dim"), soft_wrap=True)


def print_notes(console: Console, tables: "Iterable[Table]") -> None:
    """Print the notes of tables whose format has no place for notes."""
    for note in dict.fromkeys(note for table in tables for note in table.notes):
        console.print(f"Note: {note}", soft_wrap=True, markup=False)


def print_problems(console: Console, problems: "Sequence[Problem]") -> None:
    """Print the runs that the tables leave out, with the reasons."""
    for problem in problems:
        console.print(Text(f"left out: {printable(str(problem.root))}: {problem.reason}", "yellow"), soft_wrap=True)


def resolve_format(form: str, *, as_json: bool) -> str:
    """Return the format that ``--format`` and ``--json`` select; raise ``UnknownName``."""
    from evopolicygym.analysis.tables.table import FORMATS

    form = "json" if as_json else form
    if form not in (known := ("table", "json", *FORMATS)):
        raise UnknownName("format", form, known)
    return form


def print_tables(
    tables: "Sequence[Table]",
    form: str,
    with_notes: "Sequence[Table]" = (),
    problems: "Sequence[Problem]" = (),
) -> None:
    """Print tables in any format but JSON, with notes on the runs that they leave out.

    As CSV, their notes and those of ``with_notes`` go to stderr.
    """
    from evopolicygym.analysis.tables.table import format_tables, with_left_out

    if form != "csv":
        tables = with_left_out(tables, ((str(problem.root), problem.reason) for problem in problems))
    if form == "table":
        for table in tables:
            print_table(out(), table)
        return
    print_text(format_tables(tables, form), end="")
    if form == "csv":
        print_notes(err(), [*tables, *with_notes])


def show_estimate(estimate: "TableSet", *, as_json: bool) -> None:
    """Print an estimate as tables or as JSON."""
    if as_json:
        print_json(estimate.document)
    else:
        print_tables(estimate.tables, "table")


def show_findings(checked: "Iterator[CheckResult]", name: str, *, as_json: bool) -> "list[CheckResult]":
    """Run a check and return its findings; print a table of them, which grows with each finding on a terminal."""
    from rich.console import Group
    from rich.live import Live
    from rich.spinner import Spinner

    findings: list[CheckResult] = []
    if as_json or not out().is_terminal:
        with err().status(f"checking {name}") as status:
            for finding in checked:
                findings.append(finding)
                status.update(f"checking {name}: {len(findings)} findings, last {finding.name}")
        if not as_json:
            out().print(_findings_table(findings))
        return findings
    waiting = Spinner("dots", f"checking {name}")
    with Live(waiting, console=out()) as live:
        for finding in checked:
            findings.append(finding)
            live.update(Group(_findings_table(findings), waiting))
        live.update(_findings_table(findings))
    return findings


def _findings_table(findings: "Sequence[CheckResult]") -> Grid:
    promised = [finding for finding in findings if finding.promised]
    others = f"; {len(findings) - len(promised)} not promised" if len(promised) < len(findings) else ""
    caption = f"{sum(finding.ok for finding in promised)} of {len(promised)} passed{others}"
    table = Grid(box=None, padding=(0, 1), show_header=False, caption=caption, caption_justify="left")
    titled = any(finding.title for finding in findings)
    for finding in findings:
        if not finding.ok:
            mark = Text(finding.verdict or "FAILED", "bold red")
        else:
            mark = Text(finding.verdict or "ok", "green" if finding.promised else "yellow")
        columns = [Text(finding.name), *([Text(finding.title)] if titled else []), Text(finding.detail, "dim")]
        table.add_row(mark, *columns)
    if titled:
        for column in table.columns[:2]:
            column.no_wrap = True
    return table
