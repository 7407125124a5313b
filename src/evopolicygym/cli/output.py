"""What verbs print, and how much: results on stdout, progress and errors on stderr; colours only on a terminal."""

import json
import logging
import os
import sys
from collections.abc import Callable
from enum import Enum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from evopolicygym.cli.interruption import INTERRUPTED, interruptible
from evopolicygym.core.errors import AgentError, UsageError
from evopolicygym.core.text import printable_lines

if TYPE_CHECKING:
    from rich.console import Console

    from evopolicygym.api.run import Run
    from evopolicygym.runs.suites.play import Update
    from evopolicygym.runs.suites.suite import PlannedRun

LOG = logging.getLogger("evopolicygym")
"""The one logger of the package; nobody hears it unless ``--verbose`` is given."""
LOG.addHandler(logging.NullHandler())
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only the result and errors.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Log details: the sandbox, where files lie, every episode.")
]
PLAIN_WIDTH = 160
"""Columns of what is printed into a file or a pipe, unless COLUMNS says otherwise."""
_is_quiet = False
"""Whether warnings are left out."""


@cache
def out() -> "Console":
    """Return the console for results."""
    from evopolicygym.cli.printing import PrintingConsole

    return PrintingConsole(highlight=False, soft_wrap=False, width=_width(sys.stdout))


@cache
def err() -> "Console":
    """Return the console for progress and complaints."""
    from evopolicygym.cli.printing import PrintingConsole

    return PrintingConsole(stderr=True, highlight=False, width=_width(sys.stderr))


def _width(stream: TextIO) -> int | None:
    """Return the columns of a stream that is no terminal; None leaves them to the terminal or to COLUMNS."""
    return None if stream.isatty() or os.environ.get("COLUMNS") else PLAIN_WIDTH


def print_text(text: str, *, end: str = "\n") -> None:
    """Print a text on stdout as it stands, but for what a terminal would act on, which is spelled out."""
    typer.echo(printable_lines(text) + end, nl=False)


def print_json(value: Any) -> None:  # noqa: ANN401 - any JSON value, numpy's included
    """Print a value on stdout as JSON; what a terminal would act on is escaped in it."""
    from evopolicygym.core.strict_json import dumps

    text = dumps(value, indent=2)
    if not text.replace("\n", "").isprintable():
        text = "".join(char if char == "\n" or char.isprintable() else f"{json.dumps(char)[1:-1]}" for char in text)
    typer.echo(text)


def print_error(message: str) -> None:
    """Print what went wrong."""
    from rich.text import Text

    err().print(Text("Error: ", style="bold red"), Text(message), sep="", soft_wrap=True)


def print_warning(message: str) -> None:
    """Print what the user should know and what hinders nothing, unless only the result is wanted."""
    if not _is_quiet:
        err().print(f"Warning: {message}", soft_wrap=True, markup=False)


def set_quiet(*, warnings: bool) -> None:
    """Leave warnings out from now on, or no longer."""
    global _is_quiet  # noqa: PLW0603 - one program, one way to print
    _is_quiet = warnings


class Verbosity(Enum):
    """How much is said beside the result."""

    QUIET = "quiet"
    NORMAL = "normal"
    VERBOSE = "verbose"


def set_verbosity(*, quiet: bool, verbose: bool) -> Verbosity:
    """Return what was asked for, with the log switched on or off; raise ``UsageError`` where both were."""
    if quiet and verbose:
        raise UsageError("--quiet and --verbose can't be combined; give one of them.")
    _listen(on=verbose)
    set_quiet(warnings=quiet)
    if verbose:
        return Verbosity.VERBOSE
    return Verbosity.QUIET if quiet else Verbosity.NORMAL


def progress_console(loud: Verbosity, *, as_json: bool) -> "Console":
    """Return where progress is drawn: nowhere where only the result is wanted."""
    from rich.console import Console

    return Console(quiet=True) if as_json or loud is Verbosity.QUIET else err()


def log_update(run: "PlannedRun", update: "Update") -> None:
    """Log how far a run of a suite is, or its result."""
    LOG.info("%s: %s", run, update)


def _listen(*, on: bool) -> None:
    """Have the log printed on stderr, above whatever is drawn there; or no longer."""
    for handler in [handler for handler in LOG.handlers if not isinstance(handler, logging.NullHandler)]:
        LOG.removeHandler(handler)
    LOG.setLevel(logging.INFO if on else logging.WARNING)
    if on:
        from rich.logging import RichHandler

        handler = RichHandler(console=err(), show_path=False, show_level=False, markup=False, highlighter=None)
        handler.addFilter(lambda record: record.levelno < logging.WARNING)  # those are notes, which are printed anyway
        LOG.addHandler(handler)


def play_and_show(
    playing: "Callable[..., Run]", *, quiet: bool, verbose: bool, as_json: bool, fail_on_agent_error: bool = False
) -> None:
    """Call ``evopolicygym.run`` or ``resume`` with a live view and print the outcome.

    An interruption leaves a record that can be resumed. With ``fail_on_agent_error`` the exit code is 5 where the agent
    crashed or hung.
    """
    loud = set_verbosity(quiet=quiet, verbose=verbose)
    console = progress_console(loud, as_json=as_json)
    try:
        with interruptible():
            run = playing(progress=console, on_warning=print_warning)
    except KeyboardInterrupt as error:
        command = getattr(error, "command", "")
        how = f"; nothing is lost. Continue with: {command}" if command else ""
        print_error(f"interrupted{how}")
        raise typer.Exit(INTERRUPTED) from None
    _show(run.path, loud, as_json=as_json)
    if fail_on_agent_error and run.agent_error:
        raise typer.Exit(AgentError.exit_code)


def _show(root: Path, loud: Verbosity, *, as_json: bool) -> None:
    from evopolicygym.cli import outcome
    from evopolicygym.records.reader import read_run

    if as_json:
        print_json(outcome.as_json(root))
    elif loud is Verbosity.QUIET:
        outcome.show_result(out(), read_run(root))
    else:
        outcome.show_outcome(out(), read_run(root))
