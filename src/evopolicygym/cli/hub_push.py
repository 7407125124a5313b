"""Pushing an export to a hub, as the command line asks for it: shown by default, done with ``--yes``."""

from typing import Annotated, Any

import typer
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from evopolicygym.cli.output import out
from evopolicygym.core.errors import UsageError
from evopolicygym.export.hub import HubUpload, push, repository_of, total_bytes

PUSHED = "parquet"
"""The format whose tables a hub shows."""
PushTo = Annotated[
    str,
    typer.Option(metavar="hub:OWNER/NAME", help="Show what would be uploaded there (parquet only); --yes uploads it."),
]
ReallyPush = Annotated[bool, typer.Option("--yes", help="With --push-to: upload it.")]
PushPublic = Annotated[bool, typer.Option("--public", help="With --push-to: for everyone; private by default.")]


def asked_repository(push_to: str, format_name: str, *, yes: bool, public: bool) -> str:
    """Return the repository to push to, empty where none is named; raise ``UsageError`` before anything is written."""
    if not push_to:
        if yes or public:
            raise UsageError("--yes and --public say how --push-to hub:OWNER/NAME uploads, and that is not given.")
        return ""
    if format_name != PUSHED:
        raise UsageError(f"Only {PUSHED} can be pushed, as its tables are shown there; got {format_name}.")
    return repository_of(push_to)


def pushed(upload: HubUpload, *, really: bool, quiet: bool) -> dict[str, Any]:
    """Show what is to be uploaded, upload it where that is asked for, and return both as JSON has it."""
    if not quiet:
        _show(upload)
    address = push(upload) if really else None
    if not quiet:
        done = f"uploaded: {address}" if really else "Nothing was uploaded; with --yes (and --force) it is."
        out().print(Text(done), soft_wrap=True)
    files = [{"place": file.place, "path": str(file.path), "bytes": file.n_bytes} for file in upload.files]
    return {"repository": upload.repository, "private": upload.is_private, "files": files, "uploaded": address}


def _show(upload: HubUpload) -> None:
    table = Table(box=None, padding=(0, 1), header_style="dim")
    table.add_column("to be uploaded")
    table.add_column("size", justify="right")
    for file in upload.files:
        table.add_row(Text(file.place), decimal(file.n_bytes))
    out().print(table)
    size = decimal(total_bytes(upload.files))
    out().print(Text(f"{len(upload.files)} files, {size}, to the {upload.visibility} data set {upload.repository}"))
