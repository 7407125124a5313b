"""``evopolicygym export``: write runs, or environments as tasks, for other programs."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.filesize import decimal
from rich.progress import track
from rich.table import Table
from rich.text import Text
from typer.core import TyperCommand

from evopolicygym.cli import harbor_tasks
from evopolicygym.cli.hub_push import PushPublic, PushTo, ReallyPush, asked_repository, pushed
from evopolicygym.cli.interruption import interruptible
from evopolicygym.cli.options import RunsArgument, RunsBelow, split_names
from evopolicygym.cli.output import err, out, print_json
from evopolicygym.core.places import DEFAULT_RUNS
from evopolicygym.export.exporters import EXPORTERS, ExportResult
from evopolicygym.export.exporters import export as write
from evopolicygym.export.hub import tables_upload
from evopolicygym.export.tables import find
from evopolicygym.records.reader import find_places

EXAMPLES = """
Examples:

evopolicygym export parquet runs -o data

evopolicygym export parquet runs -o data --push-to hub:OWNER/NAME   (prints what it would upload; --yes uploads it)

evopolicygym export csv RUN RUN -o data --tables runs,episodes

evopolicygym export minari runs/default/tuner/acrobot -o data

evopolicygym export atif latest -o trajectories

evopolicygym export every-eval-ever runs -o scores

evopolicygym export harbor tasks   (environments, not runs: evopolicygym export harbor --help)
"""

_tasks = typer.Typer(rich_markup_mode="rich", add_completion=False)
_tasks.command("harbor", epilog=harbor_tasks.EXAMPLES)(harbor_tasks.harbor)


class Export(TyperCommand):
    """Writes runs in a format, unless what it is asked for are tasks, whose command it then is."""

    commands = {"harbor": typer.main.get_command(_tasks)}  # noqa: RUF012 - as a group has them

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:  # noqa: ANN401 - typer's
        """Leave what stands behind the name of such a command to it."""
        if args and (command := self.commands.get(args[0])):
            return command.make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


app = typer.Typer(rich_markup_mode="rich", add_completion=False)


@app.command(cls=Export, epilog=EXAMPLES)
def export(
    format_name: Annotated[
        str,
        typer.Argument(
            metavar="FORMAT",
            help="parquet, csv, minari, atif, every-eval-ever, hf-eval-results, or an installed format.",
        ),
    ],
    runs: RunsArgument,
    output: Annotated[Path, typer.Option("--output", "-o", help="The directory to write into.")],
    tables: Annotated[
        str,
        typer.Option(
            help="Tables to write, with commas: runs, submissions, episodes, steps. Default: all; csv without steps."
        ),
    ] = "",
    no_steps: Annotated[bool, typer.Option("--no-steps", help="Leave the table of steps out.")] = False,
    push_to: PushTo = "",
    yes: ReallyPush = False,
    public: PushPublic = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the files of an earlier export.")] = False,
    below: RunsBelow = DEFAULT_RUNS,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Write runs as tables (Parquet, CSV), their train episodes as Minari data sets, or what agents said as ATIF."""

    def follow(roots: Iterable[Path]) -> Iterable[Path]:
        return track(roots, "exporting", len(found), console=err(), disable=as_json)

    repository = asked_repository(push_to, format_name, yes=yes, public=public)
    EXPORTERS.load(format_name)
    found = find(find_places(runs, below))
    asked = split_names(tables) or None
    with interruptible():
        exported = write(format_name, found, output, asked, steps=not no_steps, force=force, follow=follow)
    document: dict[str, Any] = {}
    if as_json:
        written = [
            {"name": file.name, "path": str(file.path), "rows": file.rows, "bytes": file.n_bytes}
            for file in exported.written
        ]
        document = {"format": format_name, "directory": str(output), "runs": exported.runs}
        document |= {"written": written, "notes": exported.notes}
    else:
        _print(exported, output)
    if repository:
        upload = tables_upload(exported.written, output, repository, exported.runs, is_private=not public)
        document["push"] = pushed(upload, really=yes, quiet=as_json)
    if as_json:
        print_json(document)


def _print(exported: "ExportResult", directory: Path) -> None:

    table = Table(box=None, padding=(0, 1), header_style="dim")
    table.add_column("written", no_wrap=True)
    table.add_column("rows", justify="right")
    table.add_column("size", justify="right")
    for file in exported.written:
        table.add_row(Text(file.name), f"{file.rows:,}", decimal(file.n_bytes))
    out().print(table)
    out().print(Text(f"{exported.runs} runs in {directory}"), soft_wrap=True)
    for note in exported.notes:
        err().print(Text(note, "yellow"), soft_wrap=True)
