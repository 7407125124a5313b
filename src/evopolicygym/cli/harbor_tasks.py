"""``evopolicygym export harbor``: writes environments as Harbor tasks."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.filesize import decimal
from rich.text import Text

from evopolicygym.api.outputs import DEFAULT_SUITE, TASK_OPTIONS, export_harbor
from evopolicygym.cli.completion import complete_environment
from evopolicygym.cli.options import given_options, with_flags
from evopolicygym.cli.output import out, print_json
from evopolicygym.export.harbor import HarborTask

EXAMPLES = """
Examples:

evopolicygym export harbor tasks

evopolicygym export harbor tasks --environment acrobot --environment reacher --budget 64

evopolicygym export harbor tasks --suite tuning --split public
"""


@with_flags(TASK_OPTIONS)
def harbor(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where a directory for each task is made.")],
    suite: Annotated[
        str, typer.Option(metavar="NAME", help="The suite whose environments are written.", show_default=DEFAULT_SUITE)
    ] = "",
    environments: Annotated[
        list[str] | None,
        typer.Option(
            "--environment",
            help="An environment, in place of a suite's; may be given several times.",
            autocompletion=complete_environment,
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace tasks that are there already.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
    **flags: Any,  # noqa: ANN401 - one for each declared option
) -> None:
    """Write environments as Harbor tasks, with the judge in a container beside the agent's."""
    given = given_options(TASK_OPTIONS, flags)
    written = export_harbor(directory, suite=suite, environments=environments or (), force=force, **given)
    if as_json:
        print_json([{"name": task.name, "path": str(task.directory), "files": task.files} for task in written])
        return
    for task in written:
        out().print(Text(f"{task.name}  {task.directory}"), soft_wrap=True)
    out().print(f"{len(written)} tasks, {decimal(sum(map(_size, written)))}")


def _size(task: HarborTask) -> int:
    return sum((task.directory / file).stat().st_size for file in task.files)
