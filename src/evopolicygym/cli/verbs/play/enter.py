"""``evopolicygym enter``: open a shell in a run's workspace."""

from functools import partial
from typing import Annotated

import typer

from evopolicygym.api.play.enter import enter as enter_run
from evopolicygym.cli.options import RunArgument, RunsBelow
from evopolicygym.cli.output import Quiet, Verbose, play_and_show
from evopolicygym.core.directories import DEFAULT_RUNS

EXAMPLES = """
Examples:

evopolicygym enter latest   (the run that started last; ./judge task describes it)

evopolicygym enter 20261123-101500-ab12

evopolicygym run acrobot --agent shell   (starts a run and enters it)
"""


def enter(
    run: RunArgument,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Episodes that play at once, if no other process plays the run.")
    ] = None,
    trust: Annotated[bool, typer.Option("--trust", help="Continue a run that did not start on this machine.")] = False,
    below: RunsBelow = DEFAULT_RUNS,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Open a shell where an agent's program would run: in the workspace, sandboxed, with the judge.

    A run that is being served continues under its server. Any other run is resumed, and stops when you leave the shell;
    ./judge finish, or the end of its budget, gets it scored.
    """
    play = partial(enter_run, run, runs=below, workers=workers, trust=trust)
    play_and_show(play, quiet=quiet, verbose=verbose, as_json=False)
