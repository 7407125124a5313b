"""``evopolicygym run``: an agent evolves a policy, and the judge scores it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evopolicygym.cli.console import INTERRUPTED, complain, err, interruptible, out

if TYPE_CHECKING:
    from collections.abc import Callable

    from evopolicygym.core.event import Event
    from evopolicygym.core.run import RunState
    from evopolicygym.records.paths import RunPaths

    Playing = Callable[[Callable[[RunPaths, RunState], None], Callable[[Event, RunState], None]], RunState]

EXAMPLES = """
Examples:

evopolicygym run acrobot   (the tuner, 128 episodes, a private split)

evopolicygym run reacher --agent random --budget 16 --split public --json

evopolicygym run acrobot --model-url https://api.openai.com/v1 --model-key OPENAI_API_KEY -- /opt/agent/run

evopolicygym run acrobot --agent neutral --model NAME --model-url https://api.openai.com/v1 --model-key OPENAI_API_KEY

evopolicygym run acrobot --agent codex --model gpt-5.5   (a command-line tool; see docs/agents.md)

evopolicygym run continuous_car -- python3 /home/me/my_agent.py   (any program; see docs/protocol.md)
"""


def run(
    task: Annotated[str, typer.Argument(help="An environment's name (see: environments), or a spec's .toml file.")],
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- COMMAND …]", help="A program that is the agent; started once in the workspace."),
    ] = None,
    agent: Annotated[
        str, typer.Option(help="Who plays: a built-in's name or package.module:make. With COMMAND: command.")
    ] = "tuner",
    model: Annotated[str, typer.Option(help="The model that the agent is to use, where it uses one.")] = "",
    model_url: Annotated[
        str, typer.Option(help="The one model server that the agent may reach, through a door that counts tokens.")
    ] = "",
    model_key: Annotated[
        str, typer.Option(metavar="VARIABLE", help="The environment variable that holds the model server's key.")
    ] = "",
    model_wire: Annotated[
        str, typer.Option(help="What the server speaks: auto, responses, chat, messages or gemini.")
    ] = "",
    budget: Annotated[int, typer.Option(help="Train episodes that the agent may spend.")] = 128,
    validation: Annotated[int, typer.Option(help="Hidden cases that pick the checkpoint (1 to 64).")] = 16,
    held_out: Annotated[int, typer.Option(help="Hidden cases that score it (1 to 256).")] = 32,
    split: Annotated[
        str, typer.Option(help="private, public, or a directory with train.json, valid.json, heldout.json.")
    ] = "private",
    experiment: Annotated[str, typer.Option(help="Runs of one experiment play the same cases.")] = "default",
    seed: Annotated[int, typer.Option(help="Of the agent and of the policies' random numbers; not of the cases.")] = 0,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Episodes that play at once. Default: one for each core.")
    ] = None,
    runs: Annotated[Path, typer.Option(help="Where records go.")] = Path("runs"),
    isolation: Annotated[
        str, typer.Option(help="auto (the strongest that works here), bubblewrap, process or none.")
    ] = "auto",
    executor: Annotated[
        str, typer.Option(help="Where episodes play: local, ray, or package.module:Class. Results don't depend on it.")
    ] = "local",
    address: Annotated[
        str, typer.Option(help="The executor's cluster: host:port, ray://host:port or auto. Default: one of its own.")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON, and no progress.")] = False,
) -> None:
    """Let an agent evolve a policy in an environment, and score the best of its submissions on hidden cases."""
    from evopolicygym.core.agent import AgentConfig
    from evopolicygym.core.budget import BudgetRule
    from evopolicygym.core.task import Task
    from evopolicygym.environments.catalog import load
    from evopolicygym.runs.config import RunConfig, split_named
    from evopolicygym.runs.run import play

    doors = {"model_url": model_url, "model_key": model_key, "model_wire": model_wire}
    options = {name: text for name, text in doors.items() if text}
    source, directory = split_named(split)
    config = RunConfig(
        task=Task(load(task), BudgetRule(budget), validation_cases=validation, held_out_cases=held_out),
        agent=AgentConfig("command" if command else agent, model, options, tuple(command or ())),
        split=source,
        split_directory=directory,
        experiment=experiment,
        seed=seed,
        workers=workers,
        runs=runs,
        isolation=isolation,
        executor=executor,
        executor_address=address,
    )
    play_and_show(lambda opened, observe: play(config, opened, observe), as_json=as_json)


def play_and_show(playing: "Playing", *, as_json: bool) -> None:
    """Play with a live view and print the outcome; an interruption leaves a record that can be taken up again."""
    from rich.console import Console

    from evopolicygym.cli.outcome import as_json as outcome_as_json
    from evopolicygym.cli.outcome import show_outcome
    from evopolicygym.cli.progress import RunView
    from evopolicygym.core.run import RunState
    from evopolicygym.records.paths import RunPaths

    view = RunView(Console(quiet=True) if as_json else err())
    root: Path | None = None

    def opened(paths: RunPaths, state: RunState) -> None:
        nonlocal root
        root = paths.root
        view.opened(paths, state)

    try:
        with interruptible(), view.live():
            state = playing(opened, view.observe)
    except KeyboardInterrupt:
        complain(f"interrupted; nothing is lost. Go on with: evopolicygym resume {root}" if root else "interrupted")
        raise typer.Exit(INTERRUPTED) from None
    if root is not None and as_json:
        typer.echo(outcome_as_json(root))
    elif root is not None:
        show_outcome(out(), root, state)
