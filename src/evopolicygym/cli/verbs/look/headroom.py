"""``evopolicygym headroom``: say which tasks still distinguish agents, and what the best known scores are."""

from typing import Annotated

import typer

import evopolicygym
from evopolicygym.cli.options import RunsBelow, RunsOrShipped, split_names
from evopolicygym.cli.output import err, print_json
from evopolicygym.cli.tables import chosen_format, print_problems, print_tables
from evopolicygym.core.places import DEFAULT_RUNS

EXAMPLES = """
Examples:

evopolicygym headroom --with paper,references,baselines,published

evopolicygym headroom runs --with references

evopolicygym headroom runs --family minigrid --format markdown
"""


def headroom(
    runs: RunsOrShipped = None,
    shipped: Annotated[
        str, typer.Option("--with", help="Shipped tables to take best known scores from, such as paper.")
    ] = "",
    form: Annotated[str, typer.Option("--format", help="table, csv, json, markdown or latex.")] = "table",
    family: Annotated[str | None, typer.Option(help="Show the tasks of one family only.")] = None,
    below: RunsBelow = DEFAULT_RUNS,
    as_json: Annotated[bool, typer.Option("--json", help="Print the headroom as JSON.")] = False,
) -> None:
    """Say which tasks still distinguish agents: best known scores, spread between agents, noise, a verdict."""
    form = chosen_format(form, as_json=as_json)
    found = evopolicygym.headroom(runs or None, split_names(shipped), family=family, runs_directory=below)
    if form == "json":
        print_json(found.document)
        return
    print_problems(err(), found.problems)
    print_tables(found.arranged(one_each=form == "csv"), form)
