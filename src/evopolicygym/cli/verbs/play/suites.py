"""``evopolicygym suites``: list the suites that ship, show one, share its secret, and gather what shards played."""

import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from evopolicygym.cli.completion import complete_suite
from evopolicygym.cli.output import out, print_error, print_json, print_text
from evopolicygym.cli.verbs.play.suite import result_fields
from evopolicygym.core.errors import StorageError
from evopolicygym.core.pack import Headroom
from evopolicygym.core.places import DEFAULT_RUNS
from evopolicygym.core.task import Anchor
from evopolicygym.core.text import counted, plus_minus
from evopolicygym.runs.experiment import share_secret
from evopolicygym.runs.suites.cross import level_text
from evopolicygym.runs.suites.gather import GatheredSuite
from evopolicygym.runs.suites.gather import gather as gather_shards
from evopolicygym.runs.suites.records import PlannedRunVerdict
from evopolicygym.runs.suites.suite import SuiteConfig, SuiteTask, load, names, suite_task

EXAMPLES = """
Examples:

evopolicygym suites

evopolicygym suites show frontier16

evopolicygym suites secret core16 -o core16.secret   (for the machines that play shards)

evopolicygym suites gather shards   (brings the shards' runs into runs)

evopolicygym suites --json | jq '.[].environments'
"""

MOST_NAMED = 4
"""Missing runs of a shard that are named."""
app = typer.Typer(invoke_without_command=True, epilog=EXAMPLES, rich_markup_mode="rich", add_completion=False)
AsJson = Annotated[bool, typer.Option("--json", help="Print it as JSON, with what is known of each task.")]


@app.callback()
def suites(asked: typer.Context, as_json: AsJson = False) -> None:
    """List the suites that come with the package; `show` says what one holds, and why its tasks are hard."""
    if asked.invoked_subcommand:
        return
    loaded = {name: load(name, {}) for name in names()}
    if as_json:
        known = {
            environment: suite_task(environment)
            for environment in {name for suite in loaded.values() for name in suite.environments}
        }
        print_json([_document(one, found, known) for one, found in loaded.items()])
        return
    table = Table(box=None, padding=(0, 1), header_style="dim")
    for heading in ("name", "environments", "budget", "what it is", "crossed"):
        table.add_column(heading)
    for one, found in loaded.items():
        levels = {knob: ", ".join(map(level_text, found.cross[knob])) for knob in found.cross}
        budget = levels.pop("budget", str(found.common["budget"]))
        crossed = "; ".join(f"{knob}: {shown}" for knob, shown in levels.items())
        table.add_row(one, str(len(found.environments)), budget, Text(found.description), crossed or "-")
    out().print(table)


@app.command(epilog="Examples:\n\nevopolicygym suites show frontier16\n\nevopolicygym suites show mine.toml --json")
def show(
    name: Annotated[str, typer.Argument(help="A suite's name, or a .toml file.", autocompletion=complete_suite)],
    as_json: AsJson = False,
) -> None:
    """Show the tasks of a suite: of which pack each is, why it is hard, and what known policies score."""
    found = load(name, {})
    known = {name: suite_task(name) for name in found.environments}
    if as_json:
        print_json(_document(name, found, known))
        return
    out().print(Text(found.description, "bold"))
    for task in known.values():
        limit = f"{task.max_steps} steps" if task.max_steps else ""
        out().print(Text(task.name), Text(" · ".join(filter(None, (task.pack, limit))), "dim"), soft_wrap=True)
        if task.challenge:
            kinds = ", ".join(task.challenge.kinds)
            out().print(Text(f"    {kinds}: {task.challenge.why}"), soft_wrap=True)
        if scores := "; ".join(f"{kind} {_shown(anchor)}" for kind, anchor in _anchors(task).items()):
            out().print(Text(f"    {scores} (mean ± s.e.)", "dim"), soft_wrap=True)
        if task.headroom:
            out().print(Text(f"    {_headroom(task, task.headroom)}", "dim"), soft_wrap=True)


@app.command(epilog="Example:\n\nevopolicygym suites secret core16 -o secret.txt")
def secret(
    experiment: Annotated[str, typer.Argument(help="The experiment, by default a suite's name.")],
    file: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The file to write, for you alone.")],
    runs: Annotated[Path, typer.Option(help="Where its runs go.", metavar="DIR")] = DEFAULT_RUNS,
) -> None:
    """Write an experiment's secret into a file, for machines that play shards: EVOPOLICYGYM_SECRET_FILE names it there.

    Whoever can read it knows every hidden case.
    """
    text = share_secret(runs, experiment)
    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as output:
            output.write(f"{text}\n")
    except OSError as error:
        raise StorageError(f"{file} can't be written: {error.strerror}.") from error
    print_text(str(file))


@app.command(epilog="Example:\n\nevopolicygym suites gather shards --runs runs")
def gather(
    shards: Annotated[
        list[Path], typer.Argument(help="Directories of shards, or one that holds them.", metavar="DIR…")
    ],
    runs: Annotated[Path, typer.Option(help="Where the runs are brought.", metavar="DIR")] = DEFAULT_RUNS,
    as_json: Annotated[bool, typer.Option("--json", help="Print the runs and what is missing as JSON.")] = False,
) -> None:
    """Bring the finished runs of a suite's shards into one directory, each verified; name what is missing.

    Exit code 1 where a run is missing, was played twice or does not verify.
    """
    found = gather_shards(shards, runs)
    if as_json:
        print_json(_gathered(found))
    else:
        _show_gathered(found)
    if not found.ok:
        raise typer.Exit(1)


def _gathered(found: GatheredSuite) -> dict[str, Any]:
    missing = [
        {"shard": str(part.shard or ""), "runs": list(map(str, part.runs)), "command": part.command}
        for part in found.missing
    ]
    return {
        "directory": str(found.directory),
        "runs": list(map(result_fields, found.results)),
        "missing": missing,
        "problems": found.problems,
    }


def _show_gathered(found: GatheredSuite) -> None:
    for problem in found.problems:
        print_error(problem)
    here = sum(item.verdict is PlannedRunVerdict.FINISHED for item in found.results)
    out().print(Text(f"{found.directory}: {here} of {counted(len(found.results), 'run')}"), soft_wrap=True)
    for part in found.missing:
        whose = f" of shard {part.shard}" if part.shard else ""
        more = f"; and {len(part.runs) - MOST_NAMED} more" if len(part.runs) > MOST_NAMED else ""
        named = "; ".join(map(str, part.runs[:MOST_NAMED]))
        out().print(Text(f"missing{whose}: {counted(len(part.runs), 'run')}: {named}{more}", "yellow"), soft_wrap=True)
        out().print(Text(f"    {part.command or 'the same command plays them'}", "dim"), soft_wrap=True)
    if found.ok:
        out().print(Text(f"next    evopolicygym leaderboard {quote(str(found.directory))}", "dim"), soft_wrap=True)


def _document(name: str, suite: SuiteConfig, known: Mapping[str, SuiteTask]) -> dict[str, Any]:
    return {"name": name, **suite.document(), "tasks": [asdict(known[name]) for name in suite.environments]}


def _anchors(task: SuiteTask) -> Mapping[str, Anchor]:
    kinds = {"random": task.random, "idle": task.idle, "degenerate": task.degenerate, "reference": task.reference}
    return {kind: anchor for kind, anchor in kinds.items() if anchor}


def _headroom(task: SuiteTask, found: Headroom) -> str:
    tried = {"a first policy": found.first, "the whole budget": found.whole_budget}
    shares = {what: task.normalised(score) for what, score in tried.items() if score is not None}
    reached = [f"{what} {tried[what]:,g} ({share:.2f})" for what, share in shares.items() if share is not None]
    return "; ".join([f"{found.kind}: best known {found.best_known:,g}", *reached, f"{found.seconds:g} s an episode"])


def _shown(anchor: Anchor) -> str:
    rate = "" if anchor.success_rate is None else f", success {anchor.success_rate:.1%}"
    return f"{plus_minus(anchor.mean, anchor.standard_error)}{rate}"
