"""``evopolicygym environments``: list the environments that can be played."""

from dataclasses import asdict
from itertools import groupby
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from evopolicygym.cli import add_environment
from evopolicygym.cli.output import out, print_json
from evopolicygym.core.task import EnvironmentSpec
from evopolicygym.core.text import number
from evopolicygym.environments.versions import is_installed
from evopolicygym.specs.catalog import load, names

EXAMPLES = """
Examples:

evopolicygym environments

evopolicygym environments --json | jq '.[].name'

evopolicygym environments add Pendulum-v1
"""
MISSING = " *"
"""Stands after the name of an environment whose simulator is not installed."""
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
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole specs as JSON.")] = False,
) -> None:
    """List the environments with their anchors; `add` drafts a spec of your own."""
    if asked.invoked_subcommand:
        return

    specs: list[EnvironmentSpec] = [load(name) for name in names()]
    if as_json:
        print_json([{**asdict(spec), "is_installed": is_installed(spec)} for spec in specs])
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
