"""Terminal output: results on stdout, progress and errors on stderr, verbosity, and the view of a run.

Rich is imported when something is printed, because ``--help`` doesn't need it.
"""

import json
import logging
import os
import sys
from collections.abc import Callable, Iterable
from enum import Enum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from evopolicygym.cli.interruption import INTERRUPTED, interruptible
from evopolicygym.core.errors import AgentError, UsageError
from evopolicygym.core.text import printable_lines

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    from evopolicygym.api.read.run import Run

LOG = logging.getLogger("evopolicygym")
"""The package's only logger; silent unless ``--verbose`` is given."""
LOG.addHandler(logging.NullHandler())
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only the result and errors.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Log details: the sandbox, paths of files, every episode.")
]
PLAIN_WIDTH = 160
"""Columns of what is printed into a file or a pipe, unless COLUMNS says otherwise."""
_is_quiet = False
"""Whether warnings are suppressed."""


@cache
def _console_class() -> "type[Console]":
    """Create a console class that prints escapes and direction marks as text; its own styles and colours pass."""
    from rich.console import Console

    class PrintingConsole(Console):
        def render(self, renderable: "RenderableType", options: "ConsoleOptions | None" = None) -> "Iterable[Segment]":
            for segment in super().render(renderable, options):
                text = segment.text
                is_safe = segment.control or text == "\n" or text.isprintable()
                yield segment if is_safe else segment._replace(text=printable_lines(text))

    return PrintingConsole


def printing_console(**settings: Any) -> "Console":  # noqa: ANN401 - settings of rich's console
    """Return a console for texts of records, which can't act on the terminal."""
    return _console_class()(highlight=False, **settings)


@cache
def out() -> "Console":
    """Return the console for results."""
    return printing_console(soft_wrap=False, width=_width(sys.stdout))


@cache
def err() -> "Console":
    """Return the console for progress and errors."""
    return printing_console(stderr=True, width=_width(sys.stderr))


def _width(stream: TextIO) -> int | None:
    """Return the columns of a stream that is not a terminal; None leaves them to the terminal or to COLUMNS."""
    return None if stream.isatty() or os.environ.get("COLUMNS") else PLAIN_WIDTH


def print_text(text: str, *, end: str = "\n") -> None:
    """Print a text on stdout; control characters are escaped."""
    typer.echo(printable_lines(text) + end, nl=False)


def print_json(value: Any) -> None:  # noqa: ANN401 - any JSON value, numpy's included
    """Print a value on stdout as JSON; control characters are escaped, and all that the encoding lacks."""
    from evopolicygym.core.strict_json import dumps

    text = dumps(value, indent=2)
    if not text.replace("\n", "").isprintable():
        text = "".join(char if char == "\n" or char.isprintable() else f"{json.dumps(char)[1:-1]}" for char in text)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = "".join(char if char.isascii() else json.dumps(char)[1:-1] for char in text)
    typer.echo(text)


def print_error(message: str) -> None:
    """Print an error message on stderr."""
    from rich.text import Text

    err().print(Text("Error: ", style="bold red"), Text(message), sep="", soft_wrap=True)


def print_warning(message: str) -> None:
    """Print a warning on stderr unless the program is quiet."""
    if not _is_quiet:
        err().print(f"Warning: {message}", soft_wrap=True, markup=False)


def set_quiet(*, warnings: bool) -> None:
    """Suppress warnings from now on, or print them again."""
    global _is_quiet  # noqa: PLW0603 - a setting of the process
    _is_quiet = warnings


class Verbosity(Enum):
    """How much is printed besides the result."""

    QUIET = "quiet"
    NORMAL = "normal"
    VERBOSE = "verbose"


def set_verbosity(*, quiet: bool, verbose: bool) -> Verbosity:
    """Set up warnings and the log; raise ``UsageError`` if both flags are given."""
    if quiet and verbose:
        raise UsageError("--quiet and --verbose are mutually exclusive.")
    _set_logging(on=verbose)
    set_quiet(warnings=quiet)
    if verbose:
        return Verbosity.VERBOSE
    return Verbosity.QUIET if quiet else Verbosity.NORMAL


def progress_console(verbosity: Verbosity, *, as_json: bool) -> "Console":
    """Return the console for progress, which discards it if only the result is wanted."""
    from rich.console import Console

    return Console(quiet=True) if as_json or verbosity is Verbosity.QUIET else err()


def _set_logging(*, on: bool) -> None:
    """Print the log on stderr, above any live display, or stop doing so."""
    for handler in [handler for handler in LOG.handlers if not isinstance(handler, logging.NullHandler)]:
        LOG.removeHandler(handler)
    LOG.setLevel(logging.INFO if on else logging.WARNING)
    if on:
        from rich.logging import RichHandler

        handler = RichHandler(console=err(), show_path=False, show_level=False, markup=False, highlighter=None)
        handler.addFilter(lambda record: record.levelno < logging.WARNING)  # warnings are printed anyway
        LOG.addHandler(handler)


def play_and_show(
    play: "Callable[..., Run]", *, quiet: bool, verbose: bool, as_json: bool, fail_on_agent_error: bool = False
) -> None:
    """Call ``evopolicygym.run`` or ``resume`` with a live view and print the outcome.

    An interrupted run can be resumed. With ``fail_on_agent_error`` the exit code is 5 if the agent crashed or hung.
    """
    verbosity = set_verbosity(quiet=quiet, verbose=verbose)
    console = progress_console(verbosity, as_json=as_json)
    try:
        with interruptible():
            run = play(progress=console, on_warning=print_warning)
    except KeyboardInterrupt as error:
        command = getattr(error, "command", "")
        hint = f"; nothing is lost. Continue with: {command}" if command else ""
        print_error(f"interrupted{hint}")
        raise typer.Exit(INTERRUPTED) from None
    _show(run.path, verbosity, as_json=as_json)
    if fail_on_agent_error and run.agent_error:
        raise typer.Exit(AgentError.exit_code)


def _show(root: Path, verbosity: Verbosity, *, as_json: bool) -> None:
    from evopolicygym.cli import outcome
    from evopolicygym.records.reader import read_run

    if as_json:
        print_json(outcome.as_json(root))
    elif verbosity is Verbosity.QUIET:
        outcome.show_result(out(), read_run(root))
    else:
        outcome.show_outcome(out(), read_run(root))
