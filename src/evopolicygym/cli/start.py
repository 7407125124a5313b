"""Entry point of the program: Ctrl-C ends it at once from its first line, before it imports anything slow."""

import os
import sys
from pathlib import Path

from evopolicygym.cli.interruption import exit_on_interrupt


def main() -> None:
    """Run the program and exit with its exit code."""
    exit_on_interrupt()
    ignore_empty_parts()
    from evopolicygym.cli.main import main as run_program  # takes some tenths of a second

    run_program()


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
        sys.path[:] = [place for place in sys.path if place not in {"", here}]
