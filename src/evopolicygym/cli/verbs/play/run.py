"""``evopolicygym run``: let an agent evolve a policy, and score the best of its submissions on hidden cases."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer

from evopolicygym.agents.base import AGENTS
from evopolicygym.cli.completion import complete_environment
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
from evopolicygym.cli.option_flags import given_options, with_flags
from evopolicygym.cli.outcome import as_json as outcome_as_json
from evopolicygym.cli.outcome import show_outcome, show_result, submission_trouble
from evopolicygym.cli.progress import RunView
from evopolicygym.cli.workers import capped
from evopolicygym.core.cases import SplitSource
from evopolicygym.core.errors import UsageError
from evopolicygym.core.event import Event, SubmissionPublished
from evopolicygym.core.option import nested
from evopolicygym.core.run import RunState
from evopolicygym.core.run_options import RUN_OPTIONS
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import read_run
from evopolicygym.runs.config import configured_run
from evopolicygym.runs.experiment import revealed
from evopolicygym.runs.prices import unpriced
from evopolicygym.runs.run import play
from evopolicygym.runs.tables import overlaid, read_table
from evopolicygym.specs import catalog

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


@with_flags(RUN_OPTIONS)
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
        Path | None,
        typer.Option(help="A TOML file that holds a run's configuration; options given here override it."),
    ] = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON, and no progress.")] = False,
    **flags: Any,  # noqa: ANN401 - one for each declared option
) -> None:
    """Let an agent evolve a policy in an environment, and score the best of its submissions on hidden cases."""
    loud = loudness(quiet=quiet, verbose=verbose)
    _refuse_other_names(task, command or [])
    given = nested(RUN_OPTIONS, given_options(RUN_OPTIONS, {**flags, "command": command}))
    document = overlaid(read_table(config) if config else {}, {**given, **({"task": task} if task else {})})
    if "task" not in document:
        raise UsageError('Which environment is to be played? evopolicygym run TASK, or task = "NAME" in --config FILE.')
    asked = configured_run(document, str(config or "The command line"))
    task_asked = asked.task
    episodes = max(task_asked.budget.episodes, task_asked.validation_cases, task_asked.held_out_cases)
    asked = replace(asked, workers=capped(asked.workers, asked.executor, episodes))
    log_workers(asked.workers, asked.executor)
    play_and_show(lambda opened, observe: play(asked, opened, observe), loud, as_json=as_json)


def _refuse_other_names(task: str | None, command: list[str]) -> None:
    """Raise ``UsageError`` for a command that is the name of an agent or an environment, and no program."""
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


def play_and_show(playing: "Playing", loud: Loudness, *, as_json: bool) -> None:
    """Play with a live view and print the outcome; an interruption leaves a record that can be taken up again."""
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
