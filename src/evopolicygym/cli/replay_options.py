"""The options of verbs that play cases of a record again: ``verify``, ``post-hoc`` and ``film``."""

from typing import Annotated

import typer

Isolation = Annotated[
    str,
    typer.Option(help="How policies are isolated now, whatever the record says: auto, bubblewrap, process or none."),
]
Trust = Annotated[bool, typer.Option("--trust", help="Run, with your rights, a simulator that only the record names.")]
