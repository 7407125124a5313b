"""``evopolicygym reveal``: publish an experiment's secret, so that anyone can check its cases."""

from pathlib import Path
from typing import Annotated

import typer

from evopolicygym.cli.output import print_text
from evopolicygym.core.directories import DEFAULT_RUNS
from evopolicygym.records.experiment import existing_experiment
from evopolicygym.records.experiment import reveal as publish

EXAMPLES = """
Examples:

evopolicygym reveal default   (once no more agents will be compared on these cases)
"""


def reveal(
    experiment: Annotated[str, typer.Argument(help="The experiment's name.")] = "default",
    runs: Annotated[Path, typer.Option(help="The directory of its runs.")] = DEFAULT_RUNS,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask for confirmation.")] = False,
) -> None:
    """Publish an experiment's secret beside its runs; its cases are no longer hidden and can be checked."""
    existing_experiment(runs, experiment)
    if not yes:
        typer.confirm(f"Publish the secret of {experiment!r}? Its cases will no longer be hidden.", abort=True)
    print_text(str(publish(runs, experiment)))
