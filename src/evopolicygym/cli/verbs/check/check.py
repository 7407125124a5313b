"""``evopolicygym check``: check a part that you wrote: an environment, an agent, a tracker and others."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from evopolicygym.checks import KINDS
from evopolicygym.checks.agent import DEFAULT_BUDGET
from evopolicygym.checks.agent import check as check_agent
from evopolicygym.checks.diagnostic import check as check_diagnostic
from evopolicygym.checks.environment import check as check_environment
from evopolicygym.checks.executor import check as check_executor
from evopolicygym.checks.exporter import check as check_exporter
from evopolicygym.checks.figure import check as check_figure
from evopolicygym.checks.part_names import part_names
from evopolicygym.checks.sandbox import check as check_sandbox
from evopolicygym.checks.tracker import check as check_tracker
from evopolicygym.cli.interruption import interruptible
from evopolicygym.cli.output import print_json
from evopolicygym.cli.play_options import complete_kind, complete_part, parse_pairs
from evopolicygym.cli.tables import show_findings
from evopolicygym.core.check_result import CheckResult
from evopolicygym.core.errors import UnknownName, UsageError
from evopolicygym.core.task import TaskText
from evopolicygym.core.text import shell_word
from evopolicygym.runs.config import absolutize_paths
from evopolicygym.runs.environment import resolve_environment

EXAMPLES = """
Examples:

evopolicygym check environment acrobot

evopolicygym check environment my_environment.toml

evopolicygym check environment my_package:Walk-v0

evopolicygym check sandbox bubblewrap

evopolicygym check sandbox my_package.my_module:Backend --json

evopolicygym check executor ray --address 10.0.0.1:6379

evopolicygym check tracker tensorboard

evopolicygym check exporter my_package.my_module:Exporter

evopolicygym check figure my_package.my_module:FIGURE

evopolicygym check agent codex   (a scripted model answers: no key, no cost)

evopolicygym check agent my_package.my_module:make

evopolicygym check agent command -- /opt/agent/run

evopolicygym check agent codex --model gpt-5.5   (with the real model; it costs some tokens)

evopolicygym check agent neutral --model NAME --model-url http://127.0.0.1:8080   (one request: calls, context, speed)
"""

FOLLOWING = {
    "tracker": check_tracker,
    "exporter": check_exporter,
    "figure": check_figure,
    "diagnostic": check_diagnostic,
}
"""The checks of parts that follow or read a run."""


def check(
    kind: Annotated[
        str,
        typer.Argument(help=f"The kind of part: {', '.join(KINDS)}.", autocompletion=complete_kind),
    ],
    name: Annotated[
        str, typer.Argument(help="The part's name, as in a run.", autocompletion=complete_part, show_default=False)
    ] = "",
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[-- COMMAND …]", help="The program, if the agent is 'command'.")
    ] = None,
    model: Annotated[
        str,
        typer.Option(help="The agent's model. Default: scripted, which answers from a script and costs nothing."),
    ] = "",
    model_url: Annotated[str, typer.Option(help="The model's server, as in a run.")] = "",
    model_key: Annotated[
        str, typer.Option(metavar="VARIABLE", help="The environment variable that holds its key.")
    ] = "",
    model_wire: Annotated[str, typer.Option(help="The API of the server: responses, chat, messages or gemini.")] = "",
    option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="An extra option of the agent, as in a run.")
    ] = None,
    budget: Annotated[
        int, typer.Option(min=1, help="The budget of the run whose time is estimated, for an agent with its own model.")
    ] = DEFAULT_BUDGET,
    patience: Annotated[float, typer.Option(min=1, help="Seconds that an agent has for each half of its run.")] = 300.0,
    address: Annotated[str, typer.Option(help="The address of the executor's cluster, as in a run.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Check that a part keeps its contract. Exit code 1 if it doesn't, 2 if the question is invalid.

    An environment is played for up to half a minute.

    A sandbox is attacked by hostile policies for a minute; its guarantees must hold.

    An executor must produce the same episodes and files as this machine.

    A tracker logs a short run, an exporter writes it, a figure is drawn of it, and a diagnostic measures it.

    An agent plays a short run that is stopped in the middle and resumed, with a scripted model unless --model names
    one: a trial without an account. It must leave no process behind.

    neutral, rewrite, openevolve and gepa with --model-url send one request, which tells how their model acts and how
    long a run of --budget episodes will take.
    """
    if kind not in KINDS:
        raise UnknownName("kind of check", kind, KINDS, "" if name else f"evopolicygym check KIND {shell_word(kind)}.")
    if not name:
        known = sorted(part_names(kind))
        raise UsageError(
            f"Missing NAME: expected {kind} and its name, such as evopolicygym check {kind} {known[0]}. "
            f"Known: {', '.join(known)}."
        )
    if address and kind != "executor":
        raise UsageError(f"--address expects the kind executor, got {kind}.")
    model_options = {"model_url": model_url, "model_key": model_key, "model_wire": model_wire}
    options = {**parse_pairs("--option", option or ()), **{name: text for name, text in model_options.items() if text}}

    def run_check() -> Iterator[CheckResult]:
        match kind:
            case "environment":
                spec, text = resolve_environment(name, TaskText.FULL)
                return check_environment(spec, texts=text is TaskText.FULL)
            case "sandbox":
                return check_sandbox(name)
            case "executor":
                return check_executor(name, address)
            case "agent":
                return check_agent(name, model, options, absolutize_paths(command or ()), patience, budget=budget)
            case _:
                return FOLLOWING[kind](name)

    with interruptible():
        findings = show_findings(run_check(), name, as_json=as_json)
    ok = all(finding.ok for finding in findings)
    if as_json:
        print_json({"kind": kind, "name": name, "ok": ok, "findings": [_document(finding) for finding in findings]})
    if not ok:
        raise typer.Exit(1)


def _document(finding: CheckResult) -> dict[str, Any]:
    return {"name": finding.name, "ok": finding.ok, "detail": finding.detail, **finding.more}
