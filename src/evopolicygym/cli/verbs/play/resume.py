"""``evopolicygym resume``: resume a run after a crash or an interruption."""

from functools import partial
from typing import Annotated

import typer

import evopolicygym
from evopolicygym.cli.options import FailOnAgentError, RunArgument, RunsBelow
from evopolicygym.cli.output import Quiet, Verbose, play_and_show
from evopolicygym.cli.verbs.play.serve import announce_nothing, announce_seat
from evopolicygym.core.directories import DEFAULT_RUNS

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
    track: Annotated[
        str,
        typer.Option(metavar="TRACKER", help="Log the run to this tracker. Default: the one that logged it before."),
    ] = "",
    trust: Annotated[
        bool,
        typer.Option("--trust", help="Resume a run that you didn't start here, with the agent that it names."),
    ] = False,
    allow_changed_program: Annotated[
        bool,
        typer.Option(
            "--allow-changed-program", help="Resume with an agent whose program changed; the record then shows it."
        ),
    ] = False,
    below: RunsBelow = DEFAULT_RUNS,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON, without progress.")] = False,
    fail_on_agent_error: FailOnAgentError = False,
) -> None:
    """Resume a run after a crash or an interruption; its record ends as if nothing had happened.

    A run whose agent is outside is served again, at new addresses; serve --resume can say where. A run continues with
    the sandbox backend with which it started. A run that you didn't start on this machine is refused
    with exit code 2, because resuming starts the program that it names; --trust resumes it. So is a run whose agent's
    program is missing or changed; --allow-changed-program resumes it with the changed program.
    """
    play = partial(
        evopolicygym.resume,
        run,
        runs=below,
        workers=workers,
        executor=executor,
        address=address,
        trust=trust,
        allow_changed_program=allow_changed_program,
        track=track,
        announce=announce_nothing if quiet else announce_seat,
        on_agent_error="ignore",
    )
    play_and_show(play, quiet=quiet, verbose=verbose, as_json=as_json, fail_on_agent_error=fail_on_agent_error)
