"""``evopolicygym suites``: list the suites that come with the package; show what one holds and why it is hard."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from evopolicygym.cli.completion import complete_suite
from evopolicygym.cli.output import out, print_json
from evopolicygym.core.pack import Headroom
from evopolicygym.core.task import Anchor
from evopolicygym.core.text import plus_minus
from evopolicygym.runs.suites.cross import level_text
from evopolicygym.runs.suites.suite import SuiteConfig, SuiteTask, load, names, suite_task

EXAMPLES = """
Examples:

evopolicygym suites

evopolicygym suites show frontier16

evopolicygym suites --json | jq '.[].environments'
"""

app = typer.Typer(invoke_without_command=True, epilog=EXAMPLES, rich_markup_mode="rich", add_completion=False)
AsJson = Annotated[bool, typer.Option("--json", help="Print it as JSON, with what is known of each task.")]


@app.callback()
def suites(asked: typer.Context, as_json: AsJson = False) -> None:
    """List the suites that come with the package; `show` says what one holds, and why its tasks are hard."""
    if asked.invoked_subcommand:
        return
    loaded = {one: load(one, {}) for one in names()}
    if as_json:
        known = {one: suite_task(one) for one in {name for suite in loaded.values() for name in suite.environments}}
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
    known = {one: suite_task(one) for one in found.environments}
    if as_json:
        print_json(_document(name, found, known))
        return
    out().print(Text(found.description, "bold"))
    for one in known.values():
        limit = f"{one.max_steps} steps" if one.max_steps else ""
        out().print(Text(one.name), Text(" · ".join(filter(None, (one.pack, limit))), "dim"), soft_wrap=True)
        if one.challenge:
            kinds = ", ".join(one.challenge.kinds)
            out().print(Text(f"    {kinds}: {one.challenge.why}"), soft_wrap=True)
        if scores := "; ".join(f"{kind} {_shown(anchor)}" for kind, anchor in _anchors(one).items()):
            out().print(Text(f"    {scores} (mean ± s.e.)", "dim"), soft_wrap=True)
        if one.headroom:
            out().print(Text(f"    {_headroom(one, one.headroom)}", "dim"), soft_wrap=True)


def _document(name: str, suite: SuiteConfig, known: Mapping[str, SuiteTask]) -> dict[str, Any]:
    return {"name": name, **suite.document(), "tasks": [asdict(known[one]) for one in suite.environments]}


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
