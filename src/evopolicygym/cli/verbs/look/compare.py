"""``evopolicygym compare``: compare two entries, task by task and case by case."""

from typing import TYPE_CHECKING, Annotated

import typer

from evopolicygym.cli.options import RunsBelow, RunsOrAll, split_names
from evopolicygym.cli.output import err, out, print_json
from evopolicygym.cli.tables import print_problems, print_table, print_tables, resolve_format
from evopolicygym.core.directories import DEFAULT_RUNS
from evopolicygym.core.text import counted, number

if TYPE_CHECKING:
    from evopolicygym.analysis.ranking.leaderboard import Score

EXAMPLES = """
Examples:

evopolicygym compare tuner random runs

evopolicygym compare runs/default/tuner runs/default/random

evopolicygym compare tuner 'GPT-5.5 (Codex)' runs --tables paper --json

evopolicygym compare tuner random runs --format latex > table.tex
"""


def compare(
    first: Annotated[str, typer.Argument(help="A: an entry's label, a run, or a directory with runs of one entry.")],
    second: Annotated[str, typer.Argument(help="B: the same.")],
    runs: RunsOrAll = None,
    tables: Annotated[str, typer.Option("--tables", help="Shipped tables to take entries from, such as paper.")] = "",
    group_by: Annotated[str, typer.Option(help="Split entries by these too, such as experiment,seed.")] = "",
    allow_incomparable: Annotated[
        bool, typer.Option("--allow-incomparable", help="Compare runs that are not comparable.")
    ] = False,
    audit: Annotated[bool, typer.Option("--audit", help="Note the findings of the audit for each entry.")] = False,
    form: Annotated[str, typer.Option("--format", help="table, csv, json, markdown or latex.")] = "table",
    below: RunsBelow = DEFAULT_RUNS,
    as_json: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON.")] = False,
) -> None:
    """Compare two entries: differences with intervals, probability of improvement, and where they differ most."""
    from evopolicygym.api.read import results

    form = resolve_format(form, as_json=as_json)
    comparison = results.compare(
        first,
        second,
        runs or None,
        split_names(tables),
        group_by=split_names(group_by),
        allow_incomparable=allow_incomparable,
        audit=audit,
        runs=below,
    )
    if form == "json":
        print_json(comparison.document)
        return
    print_problems(err(), comparison.problems)
    pair = comparison.pair
    if form != "table":
        print_tables(comparison.csv_tables if form == "csv" else comparison.tables, form, problems=comparison.problems)
        return
    print_table(out(), comparison.tables[0])
    if pair.better_on:
        first_better, second_better = pair.better_on
        out().print(f"A is better on {counted(first_better, 'task')}, B on {second_better}, by p (Holm).")
    if pair.joint.p is not None:
        shown = {"first": "A", "second": "B", "neither": "no"}[pair.verdict or "neither"]
        out().print(f"better over all tasks             {shown} (p = {number(pair.joint.p, 4)})", markup=False)
    out().print(f"probability that A improves on B  {_format_score(pair.improvement)}", markup=False)
    covers = f" (over {pair.covers})" if pair.covers else ""
    out().print(f"mean normalised difference        {_format_score(pair.normalised)}{covers}", markup=False)
    if pair.noise:
        beyond = "beyond noise floor" if pair.noise.is_beyond else "within noise floor"
        out().print(f"its noise floor                   {number(pair.noise.floor, 3)} ({beyond})", markup=False)


def _format_score(score: "Score | None") -> str:
    if score is None:
        return "-"
    interval = score.interval
    return number(score.value, 3) + (f" [{number(interval.low, 3)}, {number(interval.high, 3)}]" if interval else "")
