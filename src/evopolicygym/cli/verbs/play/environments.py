"""``evopolicygym environments``: list the environments that can be played."""

from dataclasses import asdict
from itertools import groupby
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from evopolicygym.cli import add_environment
from evopolicygym.cli.output import out, print_json, print_text
from evopolicygym.core.pack import Pack, PackTask
from evopolicygym.core.task import EnvironmentSpec
from evopolicygym.core.text import number
from evopolicygym.environments.versions import is_installed
from evopolicygym.specs.catalog import load, names
from evopolicygym.specs.pack_catalog import readable

EXAMPLES = """
Examples:

evopolicygym environments

evopolicygym environments --all | grep -i maze

evopolicygym environments --json | jq '.[].name'

evopolicygym environments add Pendulum-v1
"""
MISSING = " *"
"""Stands after the name of an environment whose simulator is not installed."""
NAME_WIDTH = 50
"""Columns of the names of packs' tasks."""
WIDE = 100
"""Columns of a terminal from which on gymnasium's ids are shown."""


app = typer.Typer(
    invoke_without_command=True,
    epilog=EXAMPLES,
    rich_markup_mode="rich",
    add_completion=False,
)
app.command(epilog=add_environment.EXAMPLES)(add_environment.add)


@app.callback()
def environments(
    asked: typer.Context,
    everything: Annotated[bool, typer.Option("--all", help="List the tasks of all packs too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole specs as JSON.")] = False,
) -> None:
    """List the environments with their anchors; `add` drafts a spec of your own."""
    if asked.invoked_subcommand:
        return

    specs: list[EnvironmentSpec] = [load(name) for name in names()]
    packs = [pack for pack in readable() if pack.tasks] if everything else []
    if as_json:
        documents = [{**asdict(spec), "is_installed": is_installed(spec)} for spec in specs]
        print_json([*documents, *(_task_document(pack, task) for pack in packs for task in pack.tasks)])
        return
    wide = out().width >= WIDE
    table = Table(box=None, padding=(0, 1), header_style="dim")
    for heading in ("name", "kind", *(["gymnasium id"] if wide else [])):
        table.add_column(heading, no_wrap=True)
    for heading in ("steps", "random", "idle", "reference"):
        table.add_column(heading, justify="right", no_wrap=True)
    for family, members in groupby(sorted(specs, key=lambda spec: (spec.family, spec.name)), lambda spec: spec.family):
        table.add_row(Text(family, "bold"))
        for spec in members:
            anchors = (spec.random_anchor, spec.idle_anchor, spec.reference_anchor)
            means = (number(anchor.mean if anchor else None) for anchor in anchors)
            words = (
                f"  {spec.name}{'' if is_installed(spec) else MISSING}",
                spec.kind.value,
                *([spec.id] if wide else []),
                str(spec.max_steps),
            )
            table.add_row(*words, *means)
    out().print(table)
    if missing := [spec for spec in specs if not is_installed(spec)]:
        brings = ",".join(sorted({spec.extra for spec in missing if spec.extra}))
        out().print(
            f"{MISSING.strip()} not installed: pip install 'evopolicygym[{brings}]'", markup=False, soft_wrap=True
        )
    for pack in packs:
        print_text(f" {pack.name}: {pack.title}")
        for task in pack.tasks:
            print_text(f"   {task.name:<{NAME_WIDTH}} {task.kind.value:<9} {task.max_steps or '':>7}".rstrip())
    if not everything:
        out().print("more: evopolicygym packs lists families, evopolicygym environments --all their tasks", style="dim")


def _task_document(pack: Pack, task: PackTask) -> dict[str, object]:
    return {
        "name": task.name,
        "id": task.id,
        "family": pack.family,
        "kind": task.kind,
        "max_steps": task.max_steps,
        "pack": pack.name,
    }
