"""``evopolicygym effects``: say what knobs do to scores, in pairs of runs that differ in one alone."""

from typing import Annotated

import typer

import evopolicygym
from evopolicygym.cli.options import RunsBelow, RunsOrAll, split_names
from evopolicygym.cli.output import err, print_json
from evopolicygym.cli.tables import chosen_format, print_problems, print_tables
from evopolicygym.core.places import DEFAULT_RUNS

EXAMPLES = """
Examples:

evopolicygym suite smoke --cross budget=4,16 --repeats 3 && evopolicygym effects runs/smoke

evopolicygym effects runs/smoke --knobs budget --format csv

evopolicygym effects runs/harnesses --knobs harness,model   (of one model in several harnesses, and the other way)
"""


def effects(
    runs: RunsOrAll = None,
    knobs: Annotated[
        str, typer.Option(help="The knobs to compare, with commas. Default: all that differ, but harness and model.")
    ] = "",
    form: Annotated[str, typer.Option("--format", help="table, csv, json, markdown or latex.")] = "table",
    below: RunsBelow = DEFAULT_RUNS,
    as_json: Annotated[bool, typer.Option("--json", help="Print the effects as JSON.")] = False,
) -> None:
    """Say what knobs do: means of levels, and paired differences with intervals and adjusted p-values."""
    form = chosen_format(form, as_json=as_json)
    found = evopolicygym.effects(runs or None, split_names(knobs), runs_directory=below)
    if form == "json":
        print_json(found.document)
        return
    print_problems(err(), found.problems)
    print_tables(found.arranged(one_each=form == "csv"), form, noted=found.arranged())
