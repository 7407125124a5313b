"""The program with one more option of a run, ``patience``, which runs must agree in: ``python patient.py …``."""

import sys

from evopolicygym.core import options
from evopolicygym.core.options import Option

PATIENCE = Option(
    3, "How patient the judge is.", comparability_label="patience of the judge", name="patience", type=int
)


def add() -> None:
    """Declare the option, before anything of the program is loaded that asks which options there are."""
    options.COMMON_OPTIONS = (*options.COMMON_OPTIONS, PATIENCE)
    options.RUN_OPTIONS = (*options.RUN_OPTIONS, PATIENCE)


if __name__ == "__main__":
    add()
    from evopolicygym.cli.main import main

    sys.exit(main())
