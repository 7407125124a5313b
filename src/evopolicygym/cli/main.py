"""The program ``evopolicygym``: its verbs, and how its errors become messages and exit codes."""

import sys
from typing import Annotated

import typer

from evopolicygym.cli.console import complain
from evopolicygym.cli.interruption import INTERRUPTED
from evopolicygym.cli.verb_group import SETTINGS, VerbGroup
from evopolicygym.core.errors import EvoPolicyGymError
from evopolicygym.version import __version__

HELP = """
How well does an agent improve a policy through feedback?

An agent edits a policy, submits it for a few episodes, reads the feedback and edits again, until its budget is spent.
The best checkpoint is picked on hidden cases and scored on others.

First: evopolicygym run acrobot
"""
EPILOG = (
    "Exit codes: 0 done, 1 failed, 2 invalid request, 3 record damaged or in use, 4 simulator or sandbox "
    "failed, 5 agent could not start, 130 interrupted (resume continues)."
)

app = typer.Typer(
    cls=VerbGroup,
    help=HELP,
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings=SETTINGS,
)


def _print_version(asked: bool) -> None:  # noqa: FBT001 - typer's contract
    if asked:
        typer.echo(f"evopolicygym {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Options of the program itself."""


def main() -> None:
    """Run the program and leave with its exit code."""
    try:
        app()
    except EvoPolicyGymError as error:
        complain(str(error))
        sys.exit(error.exit_code)
    except OSError as error:
        complain(str(error))
        sys.exit(EvoPolicyGymError.exit_code)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
