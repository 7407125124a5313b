"""Entry point of the program: Ctrl-C ends it at once from its first line, before it imports anything slow."""

import codecs
import os
import sys
from io import TextIOWrapper
from pathlib import Path

from evopolicygym.cli.interruption import exit_on_interrupt

MARKS = {"±": "+-", "…": "...", "·": "-", "²": "^2", "→": "->", "µ": "u"}
"""How marks of this program are printed where the terminal's encoding has none."""


def main() -> None:
    """Run the program and exit with its exit code."""
    exit_on_interrupt()
    print_in_any_encoding()
    ignore_empty_parts()
    from evopolicygym.cli.main import main as run_program  # takes some tenths of a second

    run_program()


def print_in_any_encoding() -> None:
    """Print characters that the terminal's encoding lacks in another way, so that no output ends the program."""
    codecs.register_error("in other words", in_other_words)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="in other words")


def in_other_words(error: UnicodeError) -> tuple[str | bytes, int]:
    """Return what is printed for a character that can't be encoded, as a handler of ``codecs``."""
    if isinstance(error, UnicodeEncodeError) and (mark := MARKS.get(error.object[error.start])):
        return mark, error.start + 1
    return codecs.backslashreplace_errors(error)


def ignore_empty_parts() -> None:
    """Take the present directory off Python's path if only an empty part of ``PYTHONPATH`` puts it there.

    Such a part is left by ``PYTHONPATH=$PYTHONPATH:DIR``; ``PYTHONPATH=.`` puts it there on purpose.
    """
    parts = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if len(parts) == 1 or "" not in parts:
        return
    named = [part for part in parts if part]
    os.environ["PYTHONPATH"] = os.pathsep.join(named)
    here = str(Path.cwd())
    if here not in {str(Path(part).absolute()) for part in named}:
        sys.path[:] = [entry for entry in sys.path if entry not in {"", here}]
