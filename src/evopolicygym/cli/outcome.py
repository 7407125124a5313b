"""What is said of a run at its end: its score beside others, where its record lies, what to look at next."""

import json
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from evopolicygym.analysis.comparison import Row, compare
from evopolicygym.cli.console import number
from evopolicygym.core.printable import printable
from evopolicygym.core.run import RunState
from evopolicygym.records.jsontext import dumps
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import RunRecord
from evopolicygym.records.run_document import document_of, run_document, success_rate


def show_outcome(console: Console, record: RunRecord) -> None:
    """Print a run's outcome for a person."""
    state, root = record.state, record.paths.root
    console.print(Panel(_headline(state), expand=False, border_style="green" if state.held_out() else "yellow"))
    if state.held_out():
        console.print(_comparison(compare(state)))
    if spent := _spent(document_of(record)["usage"]):
        console.print(Text(f"model   {spent}"), soft_wrap=True)
    console.print(Text(f"record  {root}"), soft_wrap=True)
    for verb, what in (("show", "its submissions"), ("verify --replay", "checks it, and plays its score again")):
        console.print(
            Text(f"next    evopolicygym {verb} {root}", style="dim"), Text(f"({what})", "dim"), soft_wrap=True
        )


def as_json(root: Path) -> str:
    """Return a run's document with where it lies, for a script."""
    return json.dumps({"run": str(root), **json.loads(dumps(run_document(RunPaths(root))))}, indent=2)


def _headline(state: RunState) -> Text:
    held_out, opened = state.held_out(), state.opened
    if held_out is None or state.selected is None:
        status = state.finished.status.value if state.finished else f"not finished: {state.stage}"
        return Text(f"{opened.task.environment.name}: no score ({status})", style="yellow")
    rate = success_rate(state)
    success = f", success rate {rate:.0%}" if rate is not None else ""
    return Text.assemble(
        f"{opened.task.environment.name}: held-out score ",
        (f"{number(held_out.mean)} ± {number(held_out.standard_error)}", "bold green"),
        f" over {held_out.count} cases{success}\n",
        f"submission {state.selected.submit_index} of {len(state.submissions)}, validation mean "
        f"{number(state.selected.validation_mean)}; {opened.split} split, isolation {opened.isolation}",
        (" (unverified)" if opened.isolation == "none" else "", "yellow"),
    )


def _spent(usage: Mapping[str, float | None] | None) -> str:
    """Return in a line what the agent's model took; empty where it asked none."""
    if usage is None:
        return ""
    cost, least = usage.get("cost"), "at least " if usage.get("unknown") else ""
    told = {name: usage.get(name) or 0 for name in ("input", "output", "requests", "seconds")}
    parts = (
        f"{told['input'] + told['output']:,.0f} tokens ({told['input']:,.0f} in, {told['output']:,.0f} out)",
        f"{told['requests']:,.0f} requests",
        f"{told['seconds']:,.0f} s of the model",
        "cost unknown" if cost is None else f"{least}{cost:,.4f} USD",
    )
    return ", ".join(parts)


def _comparison(rows: list[Row]) -> Table:
    table = Table(box=None, padding=(0, 1), header_style="dim")
    table.add_column("")
    table.add_column("mean return", justify="right")
    table.add_column("± s.e.", justify="right")
    table.add_column("source", style="dim")
    for row in rows:
        style = "bold green" if row.is_run else ""
        table.add_row(
            Text(printable(row.name)), number(row.mean), number(row.standard_error), Text(row.origin), style=style
        )
    return table
