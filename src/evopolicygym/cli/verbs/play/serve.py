"""``evopolicygym serve``: play a run whose agent is outside: a person, an editor's agent, a harness, a container."""

from functools import partial
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer

from evopolicygym.agents.kit.outside_agent import OutsideAccess
from evopolicygym.api.play.serve import play_served
from evopolicygym.cli.options import complete_environment, complete_run
from evopolicygym.cli.output import Quiet, Verbose, err, play_and_show
from evopolicygym.cli.play_options import given_options, with_flags
from evopolicygym.core.agent import Workspace
from evopolicygym.core.options import RUN_OPTIONS
from evopolicygym.judge_client.address import JudgeAddress

EXAMPLES = """
Examples:

evopolicygym serve acrobot   (then, in another shell: cd WORKSPACE, source judge.env, ./judge task)

evopolicygym serve acrobot --label cursor --budget 64 --max-time 2h

evopolicygym serve acrobot --workspace work --socket /tmp/judge.sock

evopolicygym serve acrobot --listen 0.0.0.0:8000 --allow-host judge   (for containers that call this machine judge)

evopolicygym serve --resume latest
"""
NOT_OUTSIDE = {
    *("agent", "command", "interactive", "options", "model_url", "model_key", "model_wire", "price"),
    *("max_cost", "max_tokens", "max_turns"),
}
"""Options of agents that a run starts, or whose models it calls."""
OPTIONS = tuple(option for option in RUN_OPTIONS if option.name not in NOT_OUTSIDE)


@with_flags(OPTIONS)
def serve(
    task: Annotated[
        str | None,
        typer.Argument(
            help="An environment's name (see: environments), or a spec's .toml file; else as --config has it.",
            autocompletion=complete_environment,
        ),
    ] = None,
    workspace: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The workspace, a new or empty directory. Default: in the run directory."),
    ] = None,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Also serve there. Default: only this machine's loopback.")
    ] = "",
    socket: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Also serve at a Unix socket, which is created.")
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A host name that requests may use besides that of --listen."),
    ] = None,
    resume: Annotated[
        str, typer.Option(metavar="RUN", help="Continue a served run that stopped.", autocompletion=complete_run)
    ] = "",
    config: Annotated[
        Path | None,
        typer.Option(help="A TOML file that holds a run's configuration; options given here override it."),
    ] = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON, without progress.")] = False,
    **flags: Any,  # noqa: ANN401 - one for each declared option
) -> None:
    """Create a workspace, print the judge's address, and score the best submission of an agent from outside.

    The run ends when the budget is spent, the agent finishes (./judge finish), or --max-time is over. The agent is not
    sandboxed, because it is not started here; tables mark it as outside.
    """
    given = given_options(OPTIONS, flags)
    access = OutsideAccess(listen, socket, allow_host or ())
    announce = announce_nothing if quiet else announce_seat
    more: dict[str, Any] = {"resume": resume or None, "workspace": workspace, "config": config}
    play = partial(play_served, task, announce, access, **more, **given)
    play_and_show(play, quiet=quiet, verbose=verbose, as_json=as_json)


def announce_seat(address: JudgeAddress, workspace: Workspace) -> None:
    """Print how an agent reaches the judge."""
    err().print(f"The judge answers at {address.base_url}", soft_wrap=True)
    if address.socket_path:
        err().print(f"through the socket {address.socket_path}", soft_wrap=True, markup=False)
    err().print(f"workspace: {workspace.directory}", soft_wrap=True, markup=False)
    begin = f"cd {quote(str(workspace.directory))} && ./judge task"
    err().print(f"As the agent, in another shell: {begin}", soft_wrap=True, markup=False)
    addresses = quote(str(workspace.addresses))
    err().print(f"Other programs get the judge's address from: source {addresses}", soft_wrap=True, markup=False)


def announce_nothing(_address: JudgeAddress, _workspace: Workspace) -> None:
    """Print nothing: files have the addresses."""
