"""``evopolicygym suites``: list the suites that ship, show one, share its secret, and gather what shards played."""

import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from evopolicygym.cli.output import out, print_error, print_json, print_text
from evopolicygym.cli.play_options import complete_suite
from evopolicygym.cli.verbs.play.suite import result_fields
from evopolicygym.core.directories import DEFAULT_RUNS
from evopolicygym.core.errors import StorageError
from evopolicygym.core.pack import Headroom
from evopolicygym.core.task import Anchor
from evopolicygym.core.text import counted, plus_minus, shell_word
from evopolicygym.records.experiment import publish_identity, share_secret
from evopolicygym.runs.suites.cross import format_level
from evopolicygym.runs.suites.gather import GatheredSuite, MissingRuns
from evopolicygym.runs.suites.gather import gather as gather_shards
from evopolicygym.runs.suites.records import PlannedRunVerdict
from evopolicygym.runs.suites.suite import SuiteConfig, SuiteTask, load_suite, suite_names, suite_task

EXAMPLES = """
Examples:

evopolicygym suites

evopolicygym suites show frontier16

evopolicygym suites secret core16 -o core16.secret   (for the machines that play shards)

evopolicygym suites identity board   (for a board, which then draws a nonce)

evopolicygym suites gather shards   (brings the shards' runs into runs)

evopolicygym suites --json | jq '.[].environments'
"""

MOST_NAMED = 4
"""The largest number of missing runs of a shard to name."""
app = typer.Typer(invoke_without_command=True, epilog=EXAMPLES, rich_markup_mode="rich", add_completion=False)
AsJson = Annotated[bool, typer.Option("--json", help="Print as JSON, with details of each task.")]


@app.callback()
def suites(context: typer.Context, as_json: AsJson = False) -> None:
    """List the suites that ship; `show` lists the tasks of a suite and why they are hard."""
    if context.invoked_subcommand:
        return
    loaded = {name: load_suite(name, {}) for name in suite_names()}
    if as_json:
        known = {
            environment: suite_task(environment)
            for environment in {name for suite in loaded.values() for name in suite.environments}
        }
        print_json([_document(name, suite, known) for name, suite in loaded.items()])
        return
    table = Table(box=None, padding=(0, 1), header_style="dim")
    for heading in ("name", "environments", "budget", "what it is", "crossed"):
        table.add_column(heading)
    for name, suite in loaded.items():
        levels = {knob: ", ".join(map(format_level, suite.cross[knob])) for knob in suite.cross}
        budget = levels.pop("budget", str(suite.common["budget"]))
        crossed = "; ".join(f"{knob}: {values}" for knob, values in levels.items())
        table.add_row(name, str(len(suite.environments)), budget, Text(suite.description), crossed or "-")
    out().print(table)


@app.command(epilog="Examples:\n\nevopolicygym suites show frontier16\n\nevopolicygym suites show mine.toml --json")
def show(
    name: Annotated[str, typer.Argument(help="A suite's name, or a .toml file.", autocompletion=complete_suite)],
    as_json: AsJson = False,
) -> None:
    """Show the tasks of a suite: the pack of each, why it is hard, and scores of known policies."""
    suite = load_suite(name, {})
    known = {name: suite_task(name) for name in suite.environments}
    if as_json:
        print_json(_document(name, suite, known))
        return
    out().print(Text(suite.description, "bold"))
    for task in known.values():
        limit = f"{task.max_steps} steps" if task.max_steps else ""
        out().print(Text(task.name), Text(" · ".join(filter(None, (task.pack, limit))), "dim"), soft_wrap=True)
        if task.challenge:
            kinds = ", ".join(task.challenge.kinds)
            out().print(Text(f"    {kinds}: {task.challenge.why}"), soft_wrap=True)
        if scores := "; ".join(f"{kind} {_format_anchor(anchor)}" for kind, anchor in _anchors(task).items()):
            out().print(Text(f"    {scores} (mean ± s.e.)", "dim"), soft_wrap=True)
        if task.headroom:
            out().print(Text(f"    {_headroom(task.headroom)}", "dim"), soft_wrap=True)


@app.command(epilog="Example:\n\nevopolicygym suites secret core16 -o secret.txt")
def secret(
    experiment: Annotated[str, typer.Argument(help="The experiment, by default a suite's name.")],
    file: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The file to write, readable only by you.")
    ],
    runs: Annotated[Path, typer.Option(help="The directory of its runs.", metavar="DIR")] = DEFAULT_RUNS,
) -> None:
    """Write an experiment's secret to a file for machines that play shards; set EVOPOLICYGYM_SECRET_FILE to it there.

    Anyone who can read the file knows every hidden case.
    """
    text = share_secret(runs, experiment)
    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as output:
            output.write(f"{text}\n")
    except OSError as error:
        raise StorageError(f"{file} can't be written: {error.strerror}.") from error
    print_text(str(file))


@app.command(epilog="Example:\n\nevopolicygym suites identity board")
def identity(
    experiment: Annotated[str, typer.Argument(help="The experiment, by default a suite's name.")],
    runs: Annotated[Path, typer.Option(help="The directory of its runs.", metavar="DIR")] = DEFAULT_RUNS,
) -> None:
    """Begin an experiment, if it hasn't begun, and print its identity, which a board publishes before its nonce."""
    print_text(publish_identity(runs, experiment))


@app.command(epilog="Example:\n\nevopolicygym suites gather shards --runs runs")
def gather(
    shards: Annotated[list[Path], typer.Argument(help="Directories of shards, or their parent.", metavar="DIR…")],
    runs: Annotated[Path, typer.Option(help="The directory to copy runs into.", metavar="DIR")] = DEFAULT_RUNS,
    as_json: Annotated[bool, typer.Option("--json", help="Print the runs and the missing ones as JSON.")] = False,
) -> None:
    """Copy the verified finished runs of a suite's shards into one directory; list missing runs.

    Exit code 1 if a run is missing, was played twice or does not verify.
    """
    gathered = gather_shards(shards, runs)
    if as_json:
        print_json(_gathered_document(gathered))
    else:
        _show_gathered(gathered)
    if not gathered.ok:
        raise typer.Exit(1)


def _gathered_document(gathered: GatheredSuite) -> dict[str, Any]:
    missing = [
        {"shard": str(part.shard or ""), "runs": list(map(str, part.runs)), "command": part.command}
        for part in gathered.missing
    ]
    return {
        "directory": str(gathered.directory),
        "runs": list(map(result_fields, gathered.results)),
        "missing": missing,
        "problems": gathered.problems,
    }


def _show_gathered(gathered: GatheredSuite) -> None:
    for problem in gathered.problems:
        print_error(problem)
    here = sum(item.verdict is PlannedRunVerdict.FINISHED for item in gathered.results)
    out().print(Text(f"{gathered.directory}: {here} of {counted(len(gathered.results), 'run')}"), soft_wrap=True)
    for part in gathered.missing:
        whose = f" of shard {part.shard}" if part.shard else ""
        more = f"; and {len(part.runs) - MOST_NAMED} more" if len(part.runs) > MOST_NAMED else ""
        named = "; ".join(map(str, part.runs[:MOST_NAMED]))
        out().print(Text(f"missing{whose}: {counted(len(part.runs), 'run')}: {named}{more}", "yellow"), soft_wrap=True)
        out().print(Text(f"    {_how_to_play(part)}", "dim"), soft_wrap=True)
    if gathered.ok:
        out().print(Text(f"next    evopolicygym leaderboard {shell_word(gathered.directory)}", "dim"), soft_wrap=True)


def _how_to_play(part: MissingRuns) -> str:
    """Return the command of a suite that ships, or how to continue: no text of a shard is a command."""
    if part.command:
        return part.command
    option = f", with --shard {part.shard}" if part.shard else ""
    return f"continue with the command that began it{option}"


def _document(name: str, suite: SuiteConfig, known: Mapping[str, SuiteTask]) -> dict[str, Any]:
    return {"name": name, **suite.document(), "tasks": [asdict(known[name]) for name in suite.environments]}


def _anchors(task: SuiteTask) -> Mapping[str, Anchor]:
    kinds = {"random": task.random, "idle": task.idle, "degenerate": task.degenerate, "reference": task.reference}
    return {kind: anchor for kind, anchor in kinds.items() if anchor}


def _headroom(headroom: Headroom) -> str:
    return f"{headroom.kind}: best known {headroom.best_known:,g}; {headroom.seconds:g} s an episode"


def _format_anchor(anchor: Anchor) -> str:
    rate = "" if anchor.success_rate is None else f", success {anchor.success_rate:.1%}"
    return f"{plus_minus(anchor.mean, anchor.standard_error)}{rate}"
