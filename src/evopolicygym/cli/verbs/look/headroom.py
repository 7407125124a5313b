"""``evopolicygym headroom``: show which tasks still distinguish agents, and the best known scores."""

from typing import Annotated

import typer

from evopolicygym.cli.options import RunsBelow, RunsOrShipped, split_names
from evopolicygym.cli.output import err, print_json
from evopolicygym.cli.tables import print_problems, print_tables, resolve_format
from evopolicygym.core.directories import DEFAULT_RUNS

EXAMPLES = """
Examples:

evopolicygym headroom --beside paper,references,baselines,published

evopolicygym headroom runs --beside references

evopolicygym headroom runs --family minigrid --format markdown
"""


def headroom(
    runs: RunsOrShipped = None,
    beside: Annotated[
        str, typer.Option("--beside", help="Shipped tables to take best known scores from, such as paper.")
    ] = "",
    form: Annotated[str, typer.Option("--format", help="table, csv, json, markdown or latex.")] = "table",
    family: Annotated[str | None, typer.Option(help="Show the tasks of one family only.")] = None,
    below: RunsBelow = DEFAULT_RUNS,
    as_json: Annotated[bool, typer.Option("--json", help="Print the headroom as JSON.")] = False,
) -> None:
    """Show which tasks still distinguish agents: best known scores, spread between agents, noise, a verdict."""
    from evopolicygym.api.read import results

    form = resolve_format(form, as_json=as_json)
    tables = results.headroom(runs or None, split_names(beside), family=family, runs=below)
    if form == "json":
        print_json(tables.document)
        return
    print_problems(err(), tables.problems)
    print_tables(tables.arranged(one_each=form == "csv"), form, problems=tables.problems)
