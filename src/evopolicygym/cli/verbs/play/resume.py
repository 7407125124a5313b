"""``evopolicygym resume``: resume a run after a crash or an interruption."""

from functools import partial
from typing import Annotated

import typer

import evopolicygym
from evopolicygym.cli.loudness import Quiet, Verbose, loudness
from evopolicygym.cli.play_and_show import play_and_show
from evopolicygym.cli.run_argument import RunArgument, RunsBelow
from evopolicygym.core.places import DEFAULT_RUNS

EXAMPLES = """
Examples:

evopolicygym resume latest

evopolicygym resume runs/default/tuner/acrobot/20261121-060000-ab12
"""


def resume(
    run: RunArgument,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Episodes that play at once. Default: one for each core.")
    ] = None,
    executor: Annotated[str, typer.Option(help="Where episodes play: local, ray, or package.module:Class.")] = "local",
    address: Annotated[str, typer.Option(help="The executor's cluster: host:port, ray://host:port or auto.")] = "",
    trust: Annotated[
        bool,
        typer.Option("--trust", help="Go on with a run that was not begun here by you: start the agent that it names."),
    ] = False,
    below: RunsBelow = DEFAULT_RUNS,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON, and no progress.")] = False,
) -> None:
    """Resume a run after a crash or an interruption; it ends with the same record as if nothing had happened.

    It goes on at the isolation level that it was begun at. Exit code 2 for a run that was not begun on this machine by
    you, as that would start the program that it names: --trust goes on with it.
    """
    loud = loudness(quiet=quiet, verbose=verbose)
    playing = partial(
        evopolicygym.resume,
        run,
        runs_directory=below,
        workers=workers,
        executor=executor,
        address=address,
        trust=trust,
    )
    play_and_show(playing, loud, as_json=as_json)
