"""``evopolicygym effects``: show the effects of options on scores, in pairs of runs that differ in only one."""

from typing import Annotated

import typer

from evopolicygym.cli.options import RunsBelow, RunsOrAll, split_names
from evopolicygym.cli.output import err, print_json
from evopolicygym.cli.tables import print_problems, print_tables, resolve_format
from evopolicygym.core.directories import DEFAULT_RUNS

EXAMPLES = """
Examples:

evopolicygym suite smoke --cross budget=4,16 --repeats 3 && evopolicygym effects runs/smoke

evopolicygym effects runs/smoke --knobs budget --format csv

evopolicygym effects runs/harnesses --knobs harness,model   (models by harness, and harnesses by model)
"""


def effects(
    runs: RunsOrAll = None,
    knobs: Annotated[
        str,
        typer.Option(help="The options to compare, with commas. Default: all that differ except harness and model."),
    ] = "",
    in_returns: Annotated[
        bool, typer.Option("--in-returns", help="Show returns, environment by environment, and not normalised scores.")
    ] = False,
    form: Annotated[str, typer.Option("--format", help="table, csv, json, markdown or latex.")] = "table",
    below: RunsBelow = DEFAULT_RUNS,
    as_json: Annotated[bool, typer.Option("--json", help="Print the effects as JSON.")] = False,
) -> None:
    """Show the effects of options: means of levels, and paired differences with intervals and adjusted p-values."""
    from evopolicygym.api.read import results

    form = resolve_format(form, as_json=as_json)
    tables = results.effects(runs or None, split_names(knobs), in_returns=in_returns, runs=below)
    if form == "json":
        print_json(tables.document)
        return
    print_problems(err(), tables.problems)
    print_tables(tables.arranged(one_each=form == "csv"), form, with_notes=tables.arranged(), problems=tables.problems)
