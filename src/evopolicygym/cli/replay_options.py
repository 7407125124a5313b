"""The options of verbs that play cases of a record again: ``verify``, ``post-hoc`` and ``film``."""

from typing import Annotated

import typer

Isolation = Annotated[
    str, typer.Option(help="auto, bubblewrap, process or none: where policies play now, whatever the record says.")
]
Trust = Annotated[bool, typer.Option("--trust", help="Run a simulator that only the record names, with your rights.")]
