"""``evopolicygym resume``: resume a run after a crash or an interruption."""

from typing import Annotated

import typer

from evopolicygym.cli.loudness import Quiet, Verbose, log_workers, loudness
from evopolicygym.cli.run_argument import RunArgument, RunsBelow, run_meant
from evopolicygym.cli.verbs.play.run import play_and_show
from evopolicygym.cli.workers import capped
from evopolicygym.core.places import DEFAULT_RUNS
from evopolicygym.runs.run import resume as take_up

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
    """Take a run up again after a crash or an interruption; it ends with the same record as if nothing had happened.

    It goes on at the isolation level that it was begun at. Exit code 2 for a run that was not begun on this machine by
    you, as that would start the program that it names: --trust goes on with it.
    """
    run = run_meant(run, below)
    loud = loudness(quiet=quiet, verbose=verbose)
    log_workers(workers, executor)
    play_and_show(
        lambda opened, observe: take_up(
            run, capped(workers, executor), opened, observe, executor, address, trusted=trust
        ),
        loud,
        as_json=as_json,
    )
