"""``evopolicygym power``: say how many repeats tell two agents apart, and what they take, before they are paid for."""

from collections.abc import Iterable, Sequence
from typing import Annotated

import typer
from rich.progress import track

import evopolicygym
from evopolicygym.cli.options import RunsBelow, RunsOrShipped, split_names
from evopolicygym.cli.output import err, print_json
from evopolicygym.cli.tables import chosen_format, print_problems, print_tables
from evopolicygym.core.finding import Item
from evopolicygym.core.places import DEFAULT_RUNS

EXAMPLES = """
Examples:

evopolicygym power --difference 0.1   (a tenth of the way from random play to the best known score)

evopolicygym power runs --difference 0.05 --tasks acrobot,half_cheetah --run-cost 4.50

evopolicygym power --difference 20 --in-returns --tasks acrobot

evopolicygym power --repeats 3 --json   (the power that three repeats have)
"""


def power(
    runs: RunsOrShipped = None,
    difference: Annotated[float, typer.Option(help="The difference of two agents' means that is to be found.")] = 0.1,
    in_returns: Annotated[
        bool, typer.Option("--in-returns", help="Take the difference in returns, not in normalised scores.")
    ] = False,
    tasks: Annotated[str, typer.Option(help="The tasks, such as acrobot,parking. Default: all with repeats.")] = "",
    repeats: Annotated[
        int | None, typer.Option(help="Show the power of so many repeats, not the repeats of a power.")
    ] = None,
    wanted: Annotated[float, typer.Option("--power", help="The probability with which it is to be found.")] = 0.8,
    held_out: Annotated[int, typer.Option("--held-out", help="Held-out cases of each run.")] = 32,
    run_hours: Annotated[float | None, typer.Option(help="Hours of a run. Default: the mean of the runs.")] = None,
    run_cost: Annotated[float | None, typer.Option(help="Dollars of a run. Default: the mean of the runs.")] = None,
    shipped: Annotated[
        str, typer.Option("--with", help="Shipped tables with repeats to take variances from; '' for none.")
    ] = "baselines",
    form: Annotated[str, typer.Option("--format", help="table, csv, json, markdown or latex.")] = "table",
    below: RunsBelow = DEFAULT_RUNS,
    as_json: Annotated[bool, typer.Option("--json", help="Print the forecast as JSON.")] = False,
) -> None:
    """Say how many repeats tell two agents apart that differ by an amount, in episodes, hours and money."""
    form = chosen_format(form, as_json=as_json)

    def follow(what: str, items: Sequence[Item], /) -> Iterable[Item]:
        return track(items, what, len(items), console=err(), transient=True, disable=form == "json" or not items)

    found = evopolicygym.power(
        difference,
        runs or None,
        split_names(shipped),
        in_returns=in_returns,
        tasks=split_names(tasks),
        repeats=repeats,
        power=wanted,
        held_out=held_out,
        run_hours=run_hours,
        run_cost=run_cost,
        runs_directory=below,
        follow=follow,
    )
    if form == "json":
        print_json(found.document)
        return
    print_problems(err(), found.problems)
    print_tables(found.csv_tables if form == "csv" else found.tables, form)
