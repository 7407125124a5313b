"""The program with one more option of a run, ``patience``, which runs must agree in: ``python patient.py …``."""

import sys

from evopolicygym.core import run_options, task_options
from evopolicygym.core.option import DeclaredOption, Option

PATIENCE = DeclaredOption(
    "patience",
    int,
    Option(help="How patient the judge is.", default=3, group=task_options.CASES, compared_as="patience of the judge"),
)


def add() -> None:
    """Declare the option, before anything of the program is loaded that asks which options there are."""
    run_options.COMMON_OPTIONS = (*run_options.COMMON_OPTIONS, PATIENCE)
    run_options.RUN_OPTIONS = (*run_options.RUN_OPTIONS, PATIENCE)


if __name__ == "__main__":
    add()
    from evopolicygym.cli.main import main

    sys.exit(main())
