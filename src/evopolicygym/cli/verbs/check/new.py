"""``evopolicygym new``: write a package with a part of your own, which passes the check of its kind."""

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from evopolicygym.checks import KINDS
from evopolicygym.checks.new_package import commands, write_package
from evopolicygym.cli.output import out
from evopolicygym.cli.play_options import complete_kind
from evopolicygym.core.errors import UsageError

EXAMPLES = """
Examples:

evopolicygym new tracker my_tracker

evopolicygym new environment walk -o ~/environments/walk

evopolicygym new agent climber   (then: pip install -e ./climber, and evopolicygym check agent climber)
"""


def new(
    kind: Annotated[str, typer.Argument(help=f"The kind of part: {', '.join(KINDS)}.", autocompletion=complete_kind)],
    name: Annotated[
        str, typer.Argument(help="The part's name, which is its package's name too.", show_default=False)
    ] = "",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="DIR", help="The directory to create. Default: NAME.")
    ] = None,
) -> None:
    """Write a small installable package with a part of your own: code, entry point, test, README.

    It works as it is, and passes the check of its kind; change its code. Nothing is overwritten.
    """
    if kind in KINDS and not name:
        raise UsageError(f"Missing NAME: expected {kind} and a name, such as evopolicygym new {kind} my_{kind}.")
    directory = write_package(kind, name, output)
    out().print(Text(f"{directory} is written."), soft_wrap=True)
    for command in commands(directory):
        out().print(Text(f"  {command}"), soft_wrap=True)
