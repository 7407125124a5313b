"""``evopolicygym diagnose``: show how an agent improved, in one run or over many."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from evopolicygym.analysis.diagnostic import DIAGNOSTICS, Table, group_of, in_short, over_runs
from evopolicygym.analysis.results import Problem
from evopolicygym.analysis.tables.formats import shown, written
from evopolicygym.analysis.tables.sheets import diagnostic_sheet, digested
from evopolicygym.cli.console import out, say, say_json
from evopolicygym.cli.run_argument import RunsArgument, RunsBelow, places_meant
from evopolicygym.cli.tables import names, print_sheet, problems_document, tell_problems
from evopolicygym.core.errors import EvoPolicyGymError, RecordError
from evopolicygym.core.places import DEFAULT_RUNS
from evopolicygym.core.printable import printable
from evopolicygym.core.run import Stage
from evopolicygym.records.reader import RunRecord, read_run, runs_meant

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
    only: Annotated[list[str] | None, typer.Option(help="A diagnostic's name; several with commas, or again.")] = None,
    form: Annotated[Format, typer.Option("--format", help="How tables are written.")] = Format.TABLE,
    below: RunsBelow = DEFAULT_RUNS,
    as_json: Annotated[bool, typer.Option("--json", help="Print all that is measured as JSON.")] = False,
) -> None:
    """Tell how an agent improved: of one run by submission, of many by agent and kind of task."""
    asked = names(",".join(only or ()))
    diagnostics = {name: DIAGNOSTICS.load(name) for name in asked or DIAGNOSTICS.names()}
    roots, problems = runs_meant(places_meant(runs, below)), list[Problem]()
    groups, measured = [], dict[Path, dict[str, Any]]()
    for record in _records(roots, problems):
        groups.append(group_of(record.state))
        measured[record.paths.root] = {name: diagnostic.measure(record) for name, diagnostic in diagnostics.items()}
    together = [
        over_runs(name, diagnostic, [(group, one[name]) for group, one in zip(groups, measured.values(), strict=True)])
        for name, diagnostic in diagnostics.items()
    ]
    if as_json:
        _print_json(measured, together, problems)
        return
    tell_problems(problems)
    if len(roots) > 1:
        _print([(table, None) for table in together], form)
    else:
        parts = [(name, diagnostic, measured[roots[0]][name]) for name, diagnostic in diagnostics.items()]
        _print([(one.table(found), in_short(name, one, found)) for name, one, found in parts], form)


def _records(roots: "Sequence[Path]", problems: "list[Problem]") -> "Iterator[RunRecord]":
    """Yield records: of one run whatever there is of it, of several those that are finished and can be read."""
    for root in roots:
        try:
            record = read_run(root)
            if len(roots) > 1 and record.state.stage is not Stage.FINISHED:
                raise RecordError(f"The run is not finished ({record.state.stage.value}).")
        except (EvoPolicyGymError, OSError) as error:
            if len(roots) == 1:
                raise
            problems.append(Problem(root, printable(str(error))))
        else:
            yield record


def _print_json(measured: "dict[Path, dict[str, Any]]", together: "list[Table]", problems: "list[Problem]") -> None:

    runs = [
        {"run": str(root), **{name: asdict(one) for name, one in found.items()}} for root, found in measured.items()
    ]
    tables = {table.title: [dict(zip(table.columns, row, strict=True)) for row in table.rows] for table in together}
    say_json({"runs": runs, "together": tables, "problems": problems_document(problems)})


def _print(parts: "Sequence[tuple[Table, Table | None]]", form: Format) -> None:
    """Print tables, each with what is to be said in short of the same, where there is that."""
    for place, (table, short) in enumerate(parts):
        if place:
            say("")
        if form is Format.TABLE:
            print_sheet(out(), diagnostic_sheet(table))
            if short:
                _print_line(short)
        else:
            tables = (table, short) if short else (table,)
            say(written([diagnostic_sheet(one) for one in tables], form.value), end="")


def _print_line(short: "Table") -> None:

    told = (f"{name} {shown(digested(value))}" for name, value in short.rows if value is not None)
    out().print(Text(f" {'; '.join(told)}", "dim"), soft_wrap=False)
