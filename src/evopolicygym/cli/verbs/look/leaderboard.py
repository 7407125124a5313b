"""``evopolicygym leaderboard``: rank entries across tasks, with intervals."""

from typing import Annotated

import typer

import evopolicygym
from evopolicygym.analysis.tables.contents import (
    scores_tables,
    standings_table,
    standings_tables,
    task_tables,
    titled,
    with_table,
)
from evopolicygym.analysis.tables.formats import FORMATS, written
from evopolicygym.analysis.tables.table import Table
from evopolicygym.cli.console import out, say, say_json
from evopolicygym.cli.option_flags import names
from evopolicygym.cli.run_argument import RunsBelow, RunsOrShipped, places_meant
from evopolicygym.cli.tables import print_table, tell_notes, tell_problems
from evopolicygym.core.errors import UnknownName
from evopolicygym.core.places import DEFAULT_RUNS

EXAMPLES = """
Examples:

evopolicygym leaderboard runs --with paper

evopolicygym leaderboard --with paper --per-task --family minigrid

evopolicygym leaderboard --with paper,anchors,references --scores --format markdown

evopolicygym leaderboard runs/mine --format latex > table.tex
"""


def leaderboard(
    runs: RunsOrShipped = None,
    shipped: Annotated[str, typer.Option("--with", help="Shipped tables to stand beside, such as paper.")] = "",
    form: Annotated[str, typer.Option("--format", help="table, csv, json, markdown or latex.")] = "table",
    per_task: Annotated[bool, typer.Option("--per-task", help="Show each task's table too.")] = False,
    scores: Annotated[bool, typer.Option("--scores", help="Show tasks by entries only: means and success.")] = False,
    family: Annotated[str | None, typer.Option(help="Show the tasks of one family only.")] = None,
    by: Annotated[str, typer.Option(help="Tell entries apart by these too, such as experiment,seed.")] = "",
    normalise: Annotated[str, typer.Option(help="Normalise by the best agent, or by the best of a kind.")] = "best",
    partial: Annotated[bool, typer.Option("--partial", help="Rank entries that lack tasks with the others.")] = False,
    mix: Annotated[bool, typer.Option("--mix", help="Pool runs that are not comparable, in one table.")] = False,
    below: RunsBelow = DEFAULT_RUNS,
    as_json: Annotated[bool, typer.Option("--json", help="Print the leaderboard as JSON.")] = False,
) -> None:
    """Show how entries do across tasks: ranks with intervals, tiers, wins, success, tokens, cost and time."""
    form = "json" if as_json else form
    if form not in (known := ("table", "json", *FORMATS)):
        raise UnknownName("format", form, known)
    beside = names(shipped)
    found = evopolicygym.leaderboard(
        places_meant(runs, below, needed=not beside),
        beside,
        by=names(by),
        family=family,
        mix=mix,
        normalise=normalise,
        partial=partial,
        runs_directory=below,
    )
    if form == "json":
        say_json(found.document)
        return
    tell_problems(found.problems)
    tables: list[Table] = []
    for title, board in found.boards.items():
        whole = [standings_table(board)] if form == "csv" else standings_tables(board)
        ranked = scores_tables(board) if scores else whole
        made_of = [*ranked, *(task_tables(board) if per_task else [])]
        tables += [with_table(title, one) for one in made_of] if form == "csv" else titled(title, made_of)
    if form == "table":
        for table in tables:
            print_table(out(), table)
        return
    say(written(tables, form), end="")
    if form == "csv":
        tell_notes(tables)
