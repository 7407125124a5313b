"""``evopolicygym run``: an agent evolves a policy, and the judge scores it."""

import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evopolicygym.cli.completion import complete_agent, complete_environment
from evopolicygym.cli.console import complain, err, out, say_json, warn
from evopolicygym.cli.interruption import INTERRUPTED, interruptible
from evopolicygym.cli.loudness import (
    Loudness,
    Quiet,
    Verbose,
    log_event,
    log_opened,
    log_workers,
    loudness,
    progress_console,
)

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

evopolicygym run acrobot --agent codex --model gpt-5.5   (a command-line tool; see docs/use/agents.md)

evopolicygym run acrobot --agent codex --model gpt-5.5 --effort high --max-cost 5 --max-time 2h

evopolicygym run --config run.toml   (all of it from a file; see docs/reference/command_line.md)

evopolicygym run continuous_car -- python3 /home/me/my_agent.py   (any program; see docs/reference/protocol.md)
"""


AGENT, MODEL, LIMITS, CASES = "The agent", "Its model", "Limits of the agent", "Task and cases"


def run(
    task: Annotated[
        str | None,
        typer.Argument(
            help="An environment's name (see: environments), or a spec's .toml file; else as --config has it.",
            autocompletion=complete_environment,
        ),
    ] = None,
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- COMMAND …]", help="A program that is the agent; started once in the workspace."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="A TOML file that holds a run's configuration; what is given here wins over it.")
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option(
            help="Who plays: a built-in's name or package.module:make. With COMMAND: command.",
            show_default="tuner",
            autocompletion=complete_agent,
            rich_help_panel=AGENT,
        ),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(help="What tables and exports call the agent, such as mine-v2.", rich_help_panel=AGENT),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="What this agent can be told besides, such as quiet_s=900; may be given several times.",
            rich_help_panel=AGENT,
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="The model that the agent is to use, where it uses one.", rich_help_panel=MODEL)
    ] = None,
    effort: Annotated[
        str | None,
        typer.Option(
            metavar="LEVEL", help="How much the model is to think, such as low or high.", rich_help_panel=MODEL
        ),
    ] = None,
    model_url: Annotated[
        str | None,
        typer.Option(
            help="The one model server that the agent may reach, through a door that counts tokens.",
            rich_help_panel=MODEL,
        ),
    ] = None,
    model_key: Annotated[
        str | None,
        typer.Option(
            metavar="VARIABLE",
            help="The environment variable that holds the model server's key.",
            rich_help_panel=MODEL,
        ),
    ] = None,
    model_wire: Annotated[
        str | None,
        typer.Option(help="What the server speaks: auto, responses, chat, messages or gemini.", rich_help_panel=MODEL),
    ] = None,
    price: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=USD,…",
            help="What a million tokens cost: input=1.25,cached_input=0.125,output=10. Else it is looked up.",
            rich_help_panel=MODEL,
        ),
    ] = None,
    max_cost: Annotated[
        float | None, typer.Option(metavar="USD", help="What the model may cost.", rich_help_panel=LIMITS)
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option(help="Tokens that the model may use, input and output.", rich_help_panel=LIMITS)
    ] = None,
    max_time: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="Wall time of the agent's turns together: seconds, or 45m, 2h30m, 1d; none for no limit.",
            show_default="1d for a COMMAND",
            rich_help_panel=LIMITS,
        ),
    ] = None,
    max_turns: Annotated[int | None, typer.Option(help="Turns of the agent.", rich_help_panel=LIMITS)] = None,
    budget: Annotated[
        int | None,
        typer.Option(help="Train episodes that the agent may spend.", show_default="128", rich_help_panel=CASES),
    ] = None,
    validation: Annotated[
        int | None,
        typer.Option(help="Hidden cases that pick the checkpoint (1 to 64).", show_default="16", rich_help_panel=CASES),
    ] = None,
    held_out: Annotated[
        int | None,
        typer.Option(help="Hidden cases that score it (1 to 256).", show_default="32", rich_help_panel=CASES),
    ] = None,
    films: Annotated[
        int | None,
        typer.Option(
            help="Films of its train episodes that the agent may ask for.", show_default="0", rich_help_panel=CASES
        ),
    ] = None,
    policy_packages: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[,NAME]",
            help="Installed packages that policies may import besides numpy and scipy.",
            rich_help_panel=CASES,
        ),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(
            help="private, public, or a directory with train.json, valid.json, heldout.json.",
            show_default="private",
            rich_help_panel=CASES,
        ),
    ] = None,
    experiment: Annotated[
        str | None,
        typer.Option(help="Runs of one experiment play the same cases.", show_default="default", rich_help_panel=CASES),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            help="Of the agent and of the policies' random numbers; not of the cases.",
            show_default="0",
            rich_help_panel=CASES,
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Episodes that play at once. Default: one for each core.")
    ] = None,
    runs: Annotated[Path | None, typer.Option(help="Where records go.", show_default="runs")] = None,
    isolation: Annotated[
        str | None,
        typer.Option(help="auto (the strongest that works here), bubblewrap, process or none.", show_default="auto"),
    ] = None,
    waive: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WALL",
            help="Play even where the level lacks this wall here: seccomp or landlock. The run is marked.",
        ),
    ] = None,
    executor: Annotated[
        str | None,
        typer.Option(
            help="Where episodes play: local, ray, or package.module:Class. Results don't depend on it.",
            show_default="local",
        ),
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(help="The executor's cluster: host:port, ray://host:port or auto. Default: one of its own."),
    ] = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON, and no progress.")] = False,
) -> None:
    """Let an agent evolve a policy in an environment, and score the best of its submissions on hidden cases."""
    from evopolicygym.cli.tables import names
    from evopolicygym.cli.workers import capped
    from evopolicygym.core.errors import UsageError
    from evopolicygym.runs.config import RunTable, decode, overlaid, read_table
    from evopolicygym.runs.run import play

    loud = loudness(quiet=quiet, verbose=verbose)
    _refuse_other_names(task, command or [])
    given_agent = {
        "name": agent or ("command" if command else None),
        "command": command or None,
        "label": label,
        "options": pairs("--option", option or []) or None,
        "model": model,
        "effort": effort,
        "model_url": model_url,
        "model_key": model_key,
        "model_wire": model_wire,
        "price": pairs("--price", price.split(",")) if price else None,
        "limits": given_options(max_cost=max_cost, max_tokens=max_tokens, max_time=max_time, max_turns=max_turns),
    }
    given = given_options(
        task=task,
        budget=budget,
        validation=validation,
        held_out=held_out,
        films=films,
        policy_packages=names(policy_packages) if policy_packages else None,
        split=split,
        experiment=experiment,
        seed=seed,
        workers=workers,
        runs=str(runs) if runs else None,
        isolation=isolation,
        waive=waive or None,
        executor=executor,
        address=address,
        agent=given_options(**given_agent),
    )
    document = overlaid(read_table(config) if config else {}, given)
    if "task" not in document:
        raise UsageError('Which environment is to be played? evopolicygym run TASK, or task = "NAME" in --config FILE.')
    asked = decode(RunTable, document, str(config or "The command line")).config()
    task_asked = asked.task
    episodes = max(task_asked.budget.episodes, task_asked.validation_cases, task_asked.held_out_cases)
    asked = replace(asked, workers=capped(asked.workers, asked.executor, episodes))
    log_workers(asked.workers, asked.executor)
    play_and_show(lambda opened, observe: play(asked, opened, observe), loud, as_json=as_json)


def _refuse_other_names(task: str | None, command: list[str]) -> None:
    """Raise ``UsageError`` for a command that is the name of an agent or an environment, and no program."""
    from evopolicygym.agents.base import AGENTS
    from evopolicygym.core.errors import UsageError
    from evopolicygym.specs import catalog

    name = command[0] if command else ""
    if not name or shutil.which(name) or Path(name).exists():
        return
    if name in AGENTS.names():
        raise UsageError(
            f"The program {name!r} was asked for as the agent, and there is none here; did you mean --agent {name}? "
            f"evopolicygym run {task} --agent {name} plays with ours, and a program of yours stands after --."
        )
    if name in catalog.names():
        raise UsageError(
            f"The environments {task} and {name} were asked for, and a run plays one: evopolicygym run {name}. A suite "
            f"plays many: evopolicygym suite FILE; evopolicygym suites lists those that ship."
        )


def pairs(option: str, texts: list[str]) -> dict[str, int | float | str]:
    """Return what texts of the form NAME=VALUE hold; what is a number becomes one."""
    from evopolicygym.core.errors import UsageError

    found: dict[str, int | float | str] = {}
    for text in texts:
        name, equals, value = text.strip().partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(f"{option} is given as NAME=VALUE; {name!r} is none.")
        found[name] = _number(value)
    return found


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


def given_options(**options: object) -> dict[str, Any]:
    """Return what was given of options."""
    return {name: value for name, value in options.items() if value not in (None, {})}


def play_and_show(playing: "Playing", loud: Loudness, *, as_json: bool) -> None:
    """Play with a live view and print the outcome; an interruption leaves a record that can be taken up again."""
    from evopolicygym.cli.outcome import as_json as outcome_as_json
    from evopolicygym.cli.outcome import show_outcome, show_result, submission_trouble
    from evopolicygym.cli.progress import RunView
    from evopolicygym.core.cases import SplitSource
    from evopolicygym.core.event import SubmissionPublished
    from evopolicygym.core.run import RunState
    from evopolicygym.records.paths import RunPaths
    from evopolicygym.records.reader import read_run
    from evopolicygym.runs.experiment import revealed
    from evopolicygym.runs.prices import unpriced

    view = RunView(progress_console(loud, as_json=as_json))
    root: Path | None = None

    def opened(paths: RunPaths, state: RunState) -> None:
        nonlocal root
        root = paths.root
        view.opened(paths, state)
        log_opened(paths, state)
        if warning := unpriced(state.opened.agent, state.opened.price):
            warn(warning)
        if state.opened.split is not SplitSource.PUBLIC and revealed(paths.root, state.opened.experiment):
            warn(
                "The cases of this experiment were revealed, so they are hidden from nobody any more. For hidden "
                "cases, begin another experiment with --experiment NAME."
            )

    def observe(event: "Event", state: RunState) -> None:
        view.observe(event, state)
        log_event(event, state)
        by_line = not as_json and not err().is_terminal
        if (
            by_line
            and isinstance(event, SubmissionPublished)
            and (told := submission_trouble(state, event.submit_index))
        ):
            warn(told)

    try:
        with interruptible(), view.live():
            playing(opened, observe)
    except KeyboardInterrupt:
        complain(
            f"interrupted; nothing is lost. Go on with: evopolicygym resume {quote(str(root))}"
            if root
            else "interrupted"
        )
        raise typer.Exit(INTERRUPTED) from None
    if root is not None and as_json:
        say_json(outcome_as_json(root))
    elif root is not None and loud is Loudness.QUIET:
        show_result(out(), read_run(root))
    elif root is not None:
        show_outcome(out(), read_run(root))
