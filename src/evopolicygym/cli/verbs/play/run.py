"""``evopolicygym run``: let an agent evolve a policy, and score the best of its submissions on hidden cases."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

import evopolicygym
from evopolicygym.cli.options import FailOnAgentError, complete_environment
from evopolicygym.cli.output import Quiet, Verbose, play_and_show
from evopolicygym.cli.play_options import given_options, with_flags
from evopolicygym.cli.tables import show_estimate
from evopolicygym.core.options import RUN_OPTIONS

EXAMPLES = """
Examples:

evopolicygym run acrobot   (the tuner, 128 episodes, a private split)

evopolicygym run reacher --agent random --budget 16 --split public --json

evopolicygym run acrobot --model-url https://api.openai.com/v1 --model-key OPENAI_API_KEY -- /opt/agent/run

evopolicygym run acrobot --agent neutral --model NAME --model-url https://api.openai.com/v1 --model-key OPENAI_API_KEY

evopolicygym run acrobot --agent codex --model gpt-5.5   (a command-line tool; see docs/use/agents.md)

evopolicygym run acrobot --agent codex --model gpt-5.5 --effort high --max-cost 5 --max-time 2h

evopolicygym run acrobot --agent codex --model gpt-5.5 --estimate   (hours, tokens and money; plays nothing)

evopolicygym run --config run.toml   (everything from a file; see docs/reference/command_line.md)

evopolicygym run continuous_car -- python3 /home/me/my_agent.py   (any program; see docs/reference/protocol.md)
"""


@with_flags(RUN_OPTIONS)
def run(
    task: Annotated[
        str | None,
        typer.Argument(
            help="An environment's name (see: environments), or a spec's .toml file. Default: the one in --config.",
            autocompletion=complete_environment,
        ),
    ] = None,
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- COMMAND …]", help="A program as the agent, started once in the workspace."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="A TOML file that holds a run's configuration; options given here override it."),
    ] = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON, without progress.")] = False,
    fail_on_agent_error: FailOnAgentError = False,
    estimate: Annotated[
        bool, typer.Option("--estimate", help="Print the expected hours, tokens and cost, and play nothing.")
    ] = False,
    **flags: Any,  # noqa: ANN401 - one for each declared option
) -> None:
    """Let an agent evolve a policy in an environment, and score the best of its submissions on hidden cases."""
    options = given_options(RUN_OPTIONS, {**flags, "command": command})
    if estimate:
        show_estimate(evopolicygym.estimate(task, config=config, **options), as_json=as_json)
        return
    play = partial(evopolicygym.run, task, config=config, on_agent_error="ignore", **options)
    play_and_show(play, quiet=quiet, verbose=verbose, as_json=as_json, fail_on_agent_error=fail_on_agent_error)
