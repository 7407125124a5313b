"""``evopolicygym environments``: what can be played."""

from typing import Annotated

import typer

from evopolicygym.cli.console import number, out

EXAMPLES = """
Examples:

evopolicygym environments

evopolicygym environments --json | jq '.[].name'
"""


def environments(
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole specs as JSON.")] = False,
) -> None:
    """List the environments with their anchors."""
    from dataclasses import asdict

    from rich.table import Table

    from evopolicygym.core.environment import EnvironmentSpec
    from evopolicygym.environments.catalog import load, names
    from evopolicygym.records.jsontext import dumps

    specs: list[EnvironmentSpec] = [load(name) for name in names()]
    if as_json:
        typer.echo(dumps([asdict(spec) for spec in specs], indent=2))
        return
    table = Table(box=None, padding=(0, 1), header_style="dim")
    for heading in ("name", "family", "kind", "gymnasium id"):
        table.add_column(heading)
    for heading in ("steps", "random", "idle"):
        table.add_column(heading, justify="right")
    for spec in sorted(specs, key=lambda spec: (spec.family, spec.name)):
        anchors = (anchor.mean if anchor else None for anchor in (spec.random_anchor, spec.idle_anchor))
        table.add_row(
            spec.name, spec.family, spec.kind.value, spec.id, str(spec.max_steps), *(number(mean) for mean in anchors)
        )
    out().print(table)
