"""``evopolicygym leaderboard``: rank entries across tasks, with intervals."""

from typing import Annotated

import typer

from evopolicygym.cli.options import RunsBelow, RunsOrShipped, split_names
from evopolicygym.cli.output import err, print_json
from evopolicygym.cli.tables import print_problems, print_tables, resolve_format
from evopolicygym.core.directories import DEFAULT_RUNS

EXAMPLES = """
Examples:

evopolicygym leaderboard runs --tables paper

evopolicygym leaderboard --tables paper --per-task --family minigrid

evopolicygym leaderboard --tables paper,anchors,references --show scores --format markdown

evopolicygym leaderboard runs --show harnesses   (scores of harnesses by models)

evopolicygym leaderboard runs --show aggregates --normalise known   (interquartile means, 1 is the best known score)

evopolicygym leaderboard runs/mine --format latex > table.tex
"""


def leaderboard(
    runs: RunsOrShipped = None,
    tables: Annotated[str, typer.Option("--tables", help="Shipped tables to show with the runs, such as paper.")] = "",
    form: Annotated[str, typer.Option("--format", help="table, csv, json, markdown or latex.")] = "table",
    per_task: Annotated[
        bool, typer.Option("--per-task", help="Show each task's table too; as CSV these alone, in one table.")
    ] = False,
    show: Annotated[
        list[str] | None,
        typer.Option(
            help="The tables: ranks, scores (tasks by entries), harnesses (by models), aggregates, optimism "
            "(validation less held-out means); several with commas, or given several times. Default: ranks."
        ),
    ] = None,
    family: Annotated[str | None, typer.Option(help="Show the tasks of one family only.")] = None,
    group_by: Annotated[str, typer.Option(help="Split entries by these too, such as experiment,seed.")] = "",
    normalise: Annotated[
        str, typer.Option(help="Normalise by the best agent (best), the best entry of a kind, or the best known score.")
    ] = "best",
    partial: Annotated[bool, typer.Option("--partial", help="Rank entries that lack tasks with the others.")] = False,
    audit: Annotated[bool, typer.Option("--audit", help="Count the findings of the audit for each entry.")] = False,
    allow_incomparable: Annotated[
        bool, typer.Option("--allow-incomparable", help="Pool runs that are not comparable, in one table.")
    ] = False,
    nonce: Annotated[str, typer.Option(help="Rank only runs with this board's nonce; others are problems.")] = "",
    below: RunsBelow = DEFAULT_RUNS,
    as_json: Annotated[bool, typer.Option("--json", help="Print the leaderboard as JSON.")] = False,
) -> None:
    """Show how entries do across tasks: ranks with intervals, tiers, wins, success, tokens, cost and time."""
    from evopolicygym.api.read import results

    form = resolve_format(form, as_json=as_json)
    board = results.leaderboard(
        runs or None,
        split_names(tables),
        show=split_names(",".join(show or ())),
        group_by=split_names(group_by),
        family=family,
        allow_incomparable=allow_incomparable,
        normalise=normalise,
        partial=partial,
        audit=audit,
        nonce=nonce,
        runs=below,
    )
    if form == "json":
        print_json(board.document)
        return
    print_problems(err(), board.problems)
    print_tables(board.arranged(one_each=form == "csv", per_task=per_task), form, problems=board.problems)
