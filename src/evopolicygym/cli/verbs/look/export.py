"""``evopolicygym export``: write runs as tables or data sets that other programs read."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from rich.filesize import decimal
from rich.progress import track
from rich.table import Table
from rich.text import Text

from evopolicygym.cli.console import err, out, say_json
from evopolicygym.cli.interruption import interruptible
from evopolicygym.cli.option_flags import names
from evopolicygym.cli.run_argument import RunsArgument, RunsBelow, places_meant
from evopolicygym.core.places import DEFAULT_RUNS
from evopolicygym.export.exporters import EXPORTERS, ExportResult
from evopolicygym.export.exporters import export as write
from evopolicygym.export.schema.tables import find

EXAMPLES = """
Examples:

evopolicygym export parquet runs -o data

evopolicygym export csv RUN RUN -o data --tables runs,episodes

evopolicygym export minari runs/default/tuner/acrobot -o data
"""


def export(
    format_name: Annotated[str, typer.Argument(metavar="FORMAT", help="parquet, csv, minari or an installed one.")],
    runs: RunsArgument,
    output: Annotated[Path, typer.Option("--output", "-o", help="The directory to write into.")],
    tables: Annotated[
        str, typer.Option(help="Which of runs, submissions, episodes and steps, with commas. csv leaves steps out.")
    ] = "",
    no_steps: Annotated[bool, typer.Option("--no-steps", help="Leave the table of steps out.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the files of an export that lies there.")] = False,
    below: RunsBelow = DEFAULT_RUNS,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Write runs as tables (Parquet, CSV) or as Minari data sets of their train episodes."""

    def follow(roots: Iterable[Path]) -> Iterable[Path]:
        return track(roots, "exporting", len(found), console=err(), disable=as_json)

    EXPORTERS.load(format_name)
    found = find(places_meant(runs, below))
    asked = names(tables) or None
    with interruptible():
        exported = write(format_name, found, output, asked, steps=not no_steps, force=force, follow=follow)
    if as_json:
        written = [
            {"name": one.name, "path": str(one.path), "rows": one.rows, "bytes": one.n_bytes}
            for one in exported.written
        ]
        told = {"format": format_name, "directory": str(output), "runs": exported.runs}
        say_json({**told, "written": written, "notes": exported.notes})
    else:
        _print(exported, output)


def _print(exported: "ExportResult", directory: Path) -> None:

    table = Table(box=None, padding=(0, 1), header_style="dim")
    table.add_column("written", no_wrap=True)
    table.add_column("rows", justify="right")
    table.add_column("size", justify="right")
    for one in exported.written:
        table.add_row(Text(one.name), f"{one.rows:,}", decimal(one.n_bytes))
    out().print(table)
    out().print(Text(f"{exported.runs} runs in {directory}"), soft_wrap=True)
    for note in exported.notes:
        err().print(Text(note, "yellow"), soft_wrap=True)
