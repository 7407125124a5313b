"""``evopolicygym enter``: a shell in a run's workplace."""

from functools import partial
from typing import Annotated

import typer

from evopolicygym.api.play import enter as enter_run
from evopolicygym.cli.options import RunArgument, RunsBelow
from evopolicygym.cli.output import Quiet, Verbose, play_and_show
from evopolicygym.core.places import DEFAULT_RUNS

EXAMPLES = """
Examples:

evopolicygym enter latest   (the run that was begun last; ./judge task says what it is about)

evopolicygym enter 20261123-101500-ab12

evopolicygym run acrobot --agent shell   (begins a run and enters it)
"""


def enter(
    run: RunArgument,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Episodes that play at once, where nobody else plays the run.")
    ] = None,
    trust: Annotated[bool, typer.Option("--trust", help="Continue a run that was not begun here.")] = False,
    below: RunsBelow = DEFAULT_RUNS,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Open a shell where an agent's program would run: in the workspace, sandboxed, with the judge.

    A run that is being served is entered beside whoever serves it. One that nobody plays is resumed; leaving the shell
    stops it again, and ./judge finish, or the end of its budget, has it scored.
    """
    playing = partial(enter_run, run, runs_directory=below, workers=workers, trust=trust)
    play_and_show(playing, quiet=quiet, verbose=verbose, as_json=False)
