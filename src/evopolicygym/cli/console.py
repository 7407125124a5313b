"""Where the program prints: results on stdout, progress and complaints on stderr; colours only on a terminal."""

from functools import cache
from typing import TYPE_CHECKING, Any

from evopolicygym.core.printable import printable_lines

if TYPE_CHECKING:
    from rich.console import Console

_hushed = False
"""Whether warnings are kept back."""


@cache
def out() -> "Console":
    """Return the console for results."""
    from evopolicygym.cli.printing import PrintingConsole

    return PrintingConsole(highlight=False, soft_wrap=False)


@cache
def err() -> "Console":
    """Return the console for progress and complaints."""
    from evopolicygym.cli.printing import PrintingConsole

    return PrintingConsole(stderr=True, highlight=False)


def say(text: str, *, end: str = "\n") -> None:
    """Print a text on stdout as it stands, but for what a terminal would act on, which is spelled out."""
    import typer

    typer.echo(printable_lines(text) + end, nl=False)


def say_json(value: Any) -> None:  # noqa: ANN401 - any JSON value, numpy's included
    """Print a value on stdout as JSON; what a terminal would act on is escaped in it."""
    import json

    import typer

    from evopolicygym.records.jsontext import dumps

    text = dumps(value, indent=2)
    if not text.replace("\n", "").isprintable():
        text = "".join(char if char == "\n" or char.isprintable() else f"{json.dumps(char)[1:-1]}" for char in text)
    typer.echo(text)


def complain(message: str) -> None:
    """Print what went wrong."""
    from rich.text import Text

    err().print(Text("Error: ", style="bold red"), Text(message), sep="", soft_wrap=True)


def warn(message: str) -> None:
    """Print what its user should know, and what hinders nothing; not where the result alone is wanted."""
    if not _hushed:
        err().print(f"Warning: {message}", soft_wrap=True, markup=False)


def hush(*, warnings: bool) -> None:
    """Keep warnings back from now on, or no longer."""
    global _hushed  # noqa: PLW0603 - one program, one way to print
    _hushed = warnings
