"""``evopolicygym power``: plan how many repeats distinguish two agents, and what they cost."""

from collections.abc import Iterable, Sequence
from typing import Annotated

import typer
from rich.progress import track

from evopolicygym.cli.options import RunsBelow, RunsOrShipped, split_names
from evopolicygym.cli.output import err, print_json
from evopolicygym.cli.tables import print_problems, print_tables, resolve_format
from evopolicygym.core.check_result import Item
from evopolicygym.core.directories import DEFAULT_RUNS

EXAMPLES = """
Examples:

evopolicygym power --difference 0.1   (a tenth of the way from random play to the best known score)

evopolicygym power runs --difference 0.05 --tasks acrobot,half_cheetah --run-cost 4.50

evopolicygym power --difference 20 --in-returns --tasks acrobot

evopolicygym power --repeats 3 --json   (the power that three repeats have)
"""


def power(
    runs: RunsOrShipped = None,
    difference: Annotated[float, typer.Option(help="The difference between two agents' means to detect.")] = 0.1,
    in_returns: Annotated[
        bool, typer.Option("--in-returns", help="The difference is in returns, not in normalised scores.")
    ] = False,
    tasks: Annotated[str, typer.Option(help="The tasks, such as acrobot,parking. Default: all with repeats.")] = "",
    repeats: Annotated[
        int | None, typer.Option(help="Show the power of this many repeats instead of the repeats needed.")
    ] = None,
    target_power: Annotated[float, typer.Option("--power", help="The probability of detecting it.")] = 0.8,
    held_out: Annotated[int, typer.Option("--held-out", help="Held-out cases of each run.")] = 32,
    run_hours: Annotated[
        float | None, typer.Option(help="Hours that a run takes. Default: the mean of the runs.")
    ] = None,
    run_cost: Annotated[
        float | None, typer.Option(help="Dollars that a run costs. Default: the mean of the runs.")
    ] = None,
    tables: Annotated[
        str, typer.Option("--tables", help="Shipped tables with repeats to take variances from; '' for none.")
    ] = "baselines",
    form: Annotated[str, typer.Option("--format", help="table, csv, json, markdown or latex.")] = "table",
    below: RunsBelow = DEFAULT_RUNS,
    as_json: Annotated[bool, typer.Option("--json", help="Print the forecast as JSON.")] = False,
) -> None:
    """Plan how many repeats distinguish two agents that differ by an amount, in episodes, hours and money."""
    from evopolicygym.api.read import power as forecasts

    form = resolve_format(form, as_json=as_json)

    def follow(what: str, items: Sequence[Item], /) -> Iterable[Item]:
        return track(items, what, len(items), console=err(), transient=True, disable=form == "json" or not items)

    forecast = forecasts.power(
        difference,
        runs or None,
        split_names(tables),
        in_returns=in_returns,
        tasks=split_names(tasks),
        repeats=repeats,
        power=target_power,
        held_out=held_out,
        run_hours=run_hours,
        run_cost=run_cost,
        runs=below,
        follow=follow,
    )
    if form == "json":
        print_json(forecast.document)
        return
    print_problems(err(), forecast.problems)
    print_tables(forecast.csv_tables if form == "csv" else forecast.tables, form, problems=forecast.problems)
