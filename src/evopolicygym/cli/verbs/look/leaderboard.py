"""``evopolicygym leaderboard``: rank entries across tasks, with intervals."""

from typing import Annotated

import typer

import evopolicygym
from evopolicygym.cli.options import RunsBelow, RunsOrShipped, split_names
from evopolicygym.cli.output import err, print_json
from evopolicygym.cli.tables import print_problems, print_tables, resolve_format
from evopolicygym.core.places import DEFAULT_RUNS

EXAMPLES = """
Examples:

evopolicygym leaderboard runs --with paper

evopolicygym leaderboard --with paper --per-task --family minigrid

evopolicygym leaderboard --with paper,anchors,references --scores --format markdown

evopolicygym leaderboard runs --harnesses   (scores of harnesses by models)

evopolicygym leaderboard runs --aggregates --normalise known   (interquartile means, 1 is the best known score)

evopolicygym leaderboard runs/mine --format latex > table.tex
"""


def leaderboard(
    runs: RunsOrShipped = None,
    shipped: Annotated[str, typer.Option("--with", help="Shipped tables to show beside the runs, such as paper.")] = "",
    form: Annotated[str, typer.Option("--format", help="table, csv, json, markdown or latex.")] = "table",
    per_task: Annotated[
        bool, typer.Option("--per-task", help="Show each task's table too; as CSV these alone, in one table.")
    ] = False,
    scores: Annotated[
        bool, typer.Option("--scores", help="Show only tasks by entries: means and success rates.")
    ] = False,
    harnesses: Annotated[
        bool, typer.Option("--harnesses", help="Show only harnesses by models: normalised and rank scores.")
    ] = False,
    aggregates: Annotated[
        bool,
        typer.Option("--aggregates", help="Show only interquartile means, medians, means and optimality gaps."),
    ] = False,
    optimism: Annotated[
        bool, typer.Option("--optimism", help="Show only the selection's optimism: validation less held-out means.")
    ] = False,
    family: Annotated[str | None, typer.Option(help="Show the tasks of one family only.")] = None,
    by: Annotated[str, typer.Option(help="Split entries by these too, such as experiment,seed.")] = "",
    normalise: Annotated[
        str, typer.Option(help="Normalise by the best agent (best), the best entry of a kind, or the best known score.")
    ] = "best",
    partial: Annotated[bool, typer.Option("--partial", help="Rank entries that lack tasks with the others.")] = False,
    audit: Annotated[bool, typer.Option("--audit", help="Count the findings of the audit for each entry.")] = False,
    mix: Annotated[bool, typer.Option("--mix", help="Pool runs that are not comparable, in one table.")] = False,
    nonce: Annotated[str, typer.Option(help="Rank only runs with this board's nonce; others are problems.")] = "",
    below: RunsBelow = DEFAULT_RUNS,
    as_json: Annotated[bool, typer.Option("--json", help="Print the leaderboard as JSON.")] = False,
) -> None:
    """Show how entries do across tasks: ranks with intervals, tiers, wins, success, tokens, cost and time."""
    form = resolve_format(form, as_json=as_json)
    tables = evopolicygym.leaderboard(
        runs or None,
        split_names(shipped),
        group_by=split_names(by),
        family=family,
        allow_incomparable=mix,
        normalise=normalise,
        partial=partial,
        audit=audit,
        nonce=nonce,
        runs_directory=below,
    )
    if form == "json":
        print_json(tables.document)
        return
    print_problems(err(), tables.problems)
    views = {"optimism": optimism, "aggregates": aggregates, "harnesses": harnesses, "scores": scores}
    show = next((name for name, is_wanted in views.items() if is_wanted), "ranks")
    print_tables(tables.arranged(one_each=form == "csv", show=show, per_task=per_task), form, problems=tables.problems)
