"""``evopolicygym export harbor``: write environments as Harbor tasks."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.filesize import decimal
from rich.text import Text

from evopolicygym.api.play.harbor import DEFAULT_SUITE, TASK_OPTIONS, export_harbor
from evopolicygym.cli.options import complete_environment
from evopolicygym.cli.output import out, print_json
from evopolicygym.cli.play_options import given_options, with_flags
from evopolicygym.export.harbor import SCRIPT, HarborTask

EXAMPLES = """
Examples:

evopolicygym export harbor tasks

evopolicygym export harbor tasks --environment acrobot --environment reacher --budget 64

evopolicygym export harbor tasks --suite tuning --split public

evopolicygym export harbor tasks --image ghcr.io/me/evopolicygym   (images to pull; tasks/images.sh push makes them)
"""
app = typer.Typer(rich_markup_mode="rich", add_completion=False)


@app.command("harbor", epilog=EXAMPLES)
@with_flags(TASK_OPTIONS)
def harbor(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="The directory to write into, one directory a task.")
    ],
    suite: Annotated[
        str, typer.Option(metavar="NAME", help="The suite whose environments are written.", show_default=DEFAULT_SUITE)
    ] = "",
    environments: Annotated[
        list[str] | None,
        typer.Option(
            "--environment",
            help="An environment instead of a suite's; may be given several times.",
            autocompletion=complete_environment,
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace existing tasks.")] = False,
    image: Annotated[
        str,
        typer.Option(
            metavar="PREFIX",
            help="The registry and path of images that tasks pull instead of building; DIR/images.sh makes them.",
        ),
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
    **flags: Any,  # noqa: ANN401 - one for each declared option
) -> None:
    """Write environments as Harbor tasks, with the judge in a container of its own."""
    options = given_options(TASK_OPTIONS, flags)
    tasks = export_harbor(directory, suite=suite, environments=environments or (), force=force, image=image, **options)
    if as_json:
        print_json([_document(task) for task in tasks])
        return
    for task in tasks:
        out().print(Text(f"{task.name}  {task.directory}"), soft_wrap=True)
    out().print(f"{len(tasks)} tasks, {decimal(sum(map(_task_bytes, tasks)))}")
    if image:
        out().print(Text(f"images: sh {directory / SCRIPT}, or sh {directory / SCRIPT} push"), soft_wrap=True)


def _document(task: HarborTask) -> dict[str, object]:
    return {"name": task.name, "path": str(task.directory), "files": task.files, "images": dict(task.images)}


def _task_bytes(task: HarborTask) -> int:
    return sum((task.directory / file).stat().st_size for file in task.files)
