"""``evopolicygym export``: write runs, or environments as tasks, for other programs."""

from collections.abc import Iterable
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.filesize import decimal
from rich.progress import track
from rich.table import Table
from rich.text import Text
from typer.core import TyperCommand

from evopolicygym.cli.interruption import interruptible
from evopolicygym.cli.options import RunsArgument, RunsBelow, split_names
from evopolicygym.cli.output import err, out, print_json
from evopolicygym.cli.tables import print_problems
from evopolicygym.core.directories import DEFAULT_RUNS
from evopolicygym.core.errors import UsageError
from evopolicygym.core.text import counted
from evopolicygym.export.exporters import EXPORTERS, ExportResult
from evopolicygym.export.exporters import export as write
from evopolicygym.export.hub import HubUpload, push, repository_of, tables_upload, total_bytes
from evopolicygym.records.checked import CheckedRun, open_usable_runs
from evopolicygym.records.reader import find_paths
from evopolicygym.records.rows import TABLES

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

HARBOR = "evopolicygym.cli.export_harbor"
"""The module of the command ``export harbor``."""
HUB_FORMAT = "parquet"
"""The only format whose tables a hub shows."""
PushTo = Annotated[
    str,
    typer.Option(metavar="hub:OWNER/NAME", help="Show what would be uploaded there (parquet only); --yes uploads it."),
]
ReallyPush = Annotated[bool, typer.Option("--yes", help="With --push-to: upload it.")]
PushPublic = Annotated[bool, typer.Option("--public", help="With --push-to: for everyone; private by default.")]


class Export(TyperCommand):
    """The command ``export FORMAT``, except for ``export harbor``, which is a command of its own."""

    @cached_property
    def commands(self) -> dict[str, Any]:
        """The command ``harbor``, as a group has commands; it plays, so it is loaded only when it is called."""
        module = import_module(HARBOR)
        return {"harbor": typer.main.get_command(module.app)}

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:  # noqa: ANN401 - typer's
        """Pass the arguments on if the first names a command of its own."""
        if args and args[0] == "harbor":
            return self.commands[args[0]].make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


app = typer.Typer(rich_markup_mode="rich", add_completion=False)


@app.command(cls=Export, epilog=EXAMPLES)
def export(
    format_name: Annotated[
        str,
        typer.Argument(
            metavar="FORMAT",
            help="parquet, csv, jsonl, minari, atif, every-eval-ever, hf-eval-results, or an installed format.",
        ),
    ],
    runs: RunsArgument,
    output: Annotated[Path, typer.Option("--output", "-o", help="The directory to write into.")],
    tables: Annotated[
        str,
        typer.Option(help=f"Tables to write, with commas: {', '.join(TABLES)}. Default: all; csv without steps."),
    ] = "",
    no_steps: Annotated[bool, typer.Option("--no-steps", help="Leave the table of steps out.")] = False,
    push_to: PushTo = "",
    yes: ReallyPush = False,
    public: PushPublic = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the files of an earlier export.")] = False,
    below: RunsBelow = DEFAULT_RUNS,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Write runs as tables (Parquet, CSV, JSON lines), train episodes as Minari data sets, or conversations as ATIF."""

    def follow(runs: Iterable[CheckedRun]) -> Iterable[CheckedRun]:
        return track(runs, "exporting", len(opened.runs), console=err(), disable=as_json)

    repository = _resolve_repository(push_to, format_name, yes=yes, public=public)
    EXPORTERS.load(format_name)
    opened = open_usable_runs(find_paths(runs, below))
    table_names = split_names(tables) or None
    with interruptible():
        exported = write(format_name, opened.runs, output, table_names, steps=not no_steps, force=force, follow=follow)
    document: dict[str, Any] = {}
    if as_json:
        files = [
            {"name": file.name, "path": str(file.path), "rows": file.rows, "bytes": file.n_bytes}
            for file in exported.written
        ]
        document = {"format": format_name, "directory": str(output), "runs": exported.runs}
        document |= {"written": files, "notes": exported.notes}
        document["problems"] = [problem.document for problem in opened.problems]
    else:
        print_problems(err(), opened.problems)
        _print(exported, output)
    if repository:
        upload = tables_upload(exported.written, output, repository, is_private=not public)
        document["push"] = _push(upload, really=yes, quiet=as_json)
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
    out().print(Text(f"{counted(exported.runs, 'run')} in {directory}"), soft_wrap=True)
    for note in exported.notes:
        err().print(Text(note, "yellow"), soft_wrap=True)


def _resolve_repository(push_to: str, format_name: str, *, yes: bool, public: bool) -> str:
    """Return the repository to push to, or an empty text; raise ``UsageError`` before anything is written."""
    if not push_to:
        if yes or public:
            raise UsageError("--yes and --public need --push-to hub:OWNER/NAME.")
        return ""
    if format_name != HUB_FORMAT:
        raise UsageError(f"--push-to expects the format {HUB_FORMAT}, got {format_name}.")
    return repository_of(push_to)


def _push(upload: HubUpload, *, really: bool, quiet: bool) -> dict[str, Any]:
    """Show an upload, perform it if ``really``, and return its JSON."""
    if not quiet:
        _print_upload(upload)
    address = push(upload) if really else None
    if not quiet:
        message = f"uploaded: {address}" if really else "Nothing was uploaded; add --yes (and --force) to upload."
        out().print(Text(message), soft_wrap=True)
    files = [
        {"path_in_repo": file.path_in_repo, "path": str(file.path), "bytes": file.n_bytes} for file in upload.files
    ]
    return {"repository": upload.repository, "private": upload.is_private, "files": files, "uploaded": address}


def _print_upload(upload: HubUpload) -> None:
    table = Table(box=None, padding=(0, 1), header_style="dim")
    table.add_column("to be uploaded")
    table.add_column("size", justify="right")
    for file in upload.files:
        table.add_row(Text(file.path_in_repo), decimal(file.n_bytes))
    out().print(table)
    size = decimal(total_bytes(upload.files))
    out().print(Text(f"{len(upload.files)} files, {size}, to the {upload.visibility} data set {upload.repository}"))
