"""``evopolicygym headroom``: show which tasks still distinguish agents, and the best known scores."""

from typing import Annotated

import typer

from evopolicygym.cli.options import RunsBelow, RunsOrShipped, split_names
from evopolicygym.cli.output import err, print_json
from evopolicygym.cli.tables import print_problems, print_tables, resolve_format
from evopolicygym.core.directories import DEFAULT_RUNS

EXAMPLES = """
Examples:

evopolicygym headroom --tables paper,references,baselines,published

evopolicygym headroom runs --tables references

evopolicygym headroom runs --family minigrid --format markdown
"""


def headroom(
    runs: RunsOrShipped = None,
    tables: Annotated[
        str, typer.Option("--tables", help="Shipped tables to take best known scores from, such as paper.")
    ] = "",
    form: Annotated[str, typer.Option("--format", help="table, csv, json, markdown or latex.")] = "table",
    family: Annotated[str | None, typer.Option(help="Show the tasks of one family only.")] = None,
    below: RunsBelow = DEFAULT_RUNS,
    as_json: Annotated[bool, typer.Option("--json", help="Print the headroom as JSON.")] = False,
) -> None:
    """Show which tasks still distinguish agents: best known scores, spread between agents, noise, a verdict."""
    from evopolicygym.api.read import results

    form = resolve_format(form, as_json=as_json)
    board = results.headroom(runs or None, split_names(tables), family=family, runs=below)
    if form == "json":
        print_json(board.document)
        return
    print_problems(err(), board.problems)
    print_tables(board.arranged(one_each=form == "csv"), form, problems=board.problems)
