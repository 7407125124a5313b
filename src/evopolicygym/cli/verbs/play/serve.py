"""``evopolicygym serve``: play a run whose agent is outside: a person, an editor's agent, a harness, a container."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer

from evopolicygym.agents.kit.outside_agent import SOCKET, OutsideAccess
from evopolicygym.api.serve import play_served, resume_served
from evopolicygym.cli.completion import complete_environment, complete_run
from evopolicygym.cli.options import given_options, with_flags
from evopolicygym.cli.output import Quiet, Verbose, err, play_and_show
from evopolicygym.core.errors import UsageError
from evopolicygym.core.options import RUN_OPTIONS
from evopolicygym.core.places import DEFAULT_RUNS

EXAMPLES = """
Examples:

evopolicygym serve acrobot   (then, in another shell: cd WORKSPACE, source judge.env, ./judge task)

evopolicygym serve acrobot --name cursor --budget 64 --max-time 2h

evopolicygym serve acrobot --workspace work --socket /tmp/judge.sock

evopolicygym serve acrobot --listen 0.0.0.0:8000 --allow-host judge   (for containers that call this machine judge)

evopolicygym serve --resume latest
"""
NOT_OUTSIDE = {
    *("agent", "command", "interactive", "label", "options", "model_url", "model_key", "model_wire", "price"),
    *("max_cost", "max_tokens", "max_turns"),
}
"""Options of agents that a run starts, or whose models it asks."""
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
    name: Annotated[str, typer.Option(help="What tables call the agent; they say that it was outside.")] = "",
    workspace: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Lay the workspace there, in a new or empty directory; else in the record."),
    ] = None,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Answer there too; by default on this machine's loopback alone.")
    ] = "",
    socket: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Answer at a Unix socket too, which is made for this.")
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A name by which requests may call this machine, beyond --listen's own."),
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
    """Lay a workspace, print where the judge answers, and score the best submission of whoever asks it.

    The run ends when the budget is spent, the agent finishes (./judge finish), or --max-time is over. The agent is not
    sandboxed, as it is not started here; tables say that it was outside.
    """
    given = given_options(OPTIONS, flags)
    access = OutsideAccess(listen, socket, allow_host or ())
    announce = _announce_nothing if quiet else _announce
    if resume:
        if task or config or name or given.keys() - {"runs", "workers", "track"}:
            raise UsageError(
                "A run is resumed as it was begun; only --workspace, where the judge answers, --workers, --runs and "
                "--track may differ."
            )
        elsewhere = {"workers": given.get("workers"), "track": given.get("track", "")}
        below = given.get("runs", DEFAULT_RUNS)
        playing = partial(
            resume_served, resume, announce, access, workspace=workspace, runs_directory=below, **elsewhere
        )
    else:
        playing = partial(play_served, task, announce, access, name=name, workspace=workspace, config=config, **given)
    play_and_show(playing, quiet=quiet, verbose=verbose, as_json=as_json)


def _announce(variables: Mapping[str, str], file: Path) -> None:
    """Print how to be the agent."""
    err().print(f"The judge answers at {variables['EVOPOLICYGYM_INFO_URL'].removesuffix('/info')}", soft_wrap=True)
    if path := variables.get(SOCKET):
        err().print(f"through the socket {path}", soft_wrap=True, markup=False)
    err().print(f"workspace: {file.parent}", soft_wrap=True, markup=False)
    begin = f"cd {quote(str(file.parent))} && ./judge task"
    err().print(f"As the agent, in another shell: {begin}", soft_wrap=True, markup=False)
    err().print(f"Other programs find the judge by: source {file}", soft_wrap=True, markup=False)


def _announce_nothing(_variables: Mapping[str, str], _file: Path) -> None:
    """Leave the addresses to the workspace's file, where only results and errors are to be printed."""
