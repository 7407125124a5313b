"""``evopolicygym compare``: compare two entries, task by task and case by case."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from evopolicygym.analysis.published.score_tables import shipped as shipped_table
from evopolicygym.analysis.ranking.leaderboard import Score
from evopolicygym.analysis.ranking.pairing import pairing
from evopolicygym.analysis.ranking.score_table import Choice, score_table
from evopolicygym.analysis.results import Results, RunResult, load_results
from evopolicygym.analysis.tables.sheets import pairing_document, pairing_sheet
from evopolicygym.cli.console import number, out, say_json
from evopolicygym.cli.run_argument import RunsBelow, RunsOrAll, places_meant
from evopolicygym.cli.tables import names, print_sheet, problems_document, tell_problems
from evopolicygym.core.errors import UsageError
from evopolicygym.core.places import DEFAULT_RUNS

EXAMPLES = """
Examples:

evopolicygym compare tuner random runs

evopolicygym compare runs/default/tuner runs/default/random

evopolicygym compare tuner 'GPT-5.5 (Codex)' runs --with paper --json
"""


def compare(
    first: Annotated[str, typer.Argument(help="A: an entry's label, a run, or a directory with runs of one entry.")],
    second: Annotated[str, typer.Argument(help="B: the same.")],
    runs: RunsOrAll = None,
    shipped: Annotated[str, typer.Option("--with", help="Shipped tables to take entries from, such as paper.")] = "",
    by: Annotated[str, typer.Option(help="Tell entries apart by these too, such as experiment,seed.")] = "",
    mix: Annotated[bool, typer.Option("--mix", help="Compare runs that were not measured alike.")] = False,
    below: RunsBelow = DEFAULT_RUNS,
    as_json: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON.")] = False,
) -> None:
    """Compare two entries: differences with intervals, probability of improvement, and where they differ most."""
    beside = [shipped_table(name) for name in names(shipped)]
    named = {side: load_results([Path(side)]) for side in (first, second) if Path(side).is_dir()}
    looked_up = [side for side in (first, second) if side not in named]
    shipped_labels = {one.name for table in beside for one in table.entries}
    shipped_labels |= {run.label for table in beside for run in table.runs}
    needed = any(side not in shipped_labels for side in looked_up)
    loaded = load_results(places_meant(runs, below, needed=needed and bool(looked_up)))
    of_sides = [{run.identity for run in results.runs} for results in named.values()]
    if first == second or (len(of_sides) > 1 and set.intersection(*of_sides)):
        raise UsageError(f"{first!r} can't be compared with itself; two labels or two directories are asked for.")
    here = set().union(*of_sides)
    labels = _labels(named, {run.label for run in loaded.runs if run.identity not in here} | shipped_labels)
    everything = Results(
        _joined(loaded, named, labels), (*loaded.problems, *(one for each in named.values() for one in each.problems))
    )
    one, other = labels.get(first, first), labels.get(second, second)
    anything = score_table(everything.runs, beside, Choice(names(by), mix=True))
    for label in (one, other):
        anything.entry(label)  # a name that nobody bears is told before anything else that may be amiss
    table = score_table(everything.runs, beside, Choice(names(by), mix=mix))
    pair = pairing(table, one, other)
    if as_json:
        say_json({**pairing_document(pair), "problems": problems_document(everything.problems)})
        return
    tell_problems(everything.problems)
    print_sheet(out(), pairing_sheet(pair))
    if pair.told_apart:
        first_better, second_better = pair.told_apart
        out().print(f"A is better on {first_better} tasks, B on {second_better}, as far as intervals tell.")
    out().print(f"probability that A improves on B  {_shown(pair.improvement)}", markup=False)
    covers = f" (over {pair.covers})" if pair.covers else ""
    out().print(f"mean normalised difference        {_shown(pair.normalised)}{covers}", markup=False)


def _joined(loaded: "Results", named: "dict[str, Results]", labels: dict[str, str]) -> "tuple[RunResult, ...]":
    """Return all runs, each once; those of a named place under the label that it has here."""
    here = {run.identity: replace(run, label=labels[side]) for side, each in named.items() for run in each.runs}
    return (*here.values(), *(run for run in loaded.runs if run.identity not in here))


def _labels(named: "dict[str, Results]", others: set[str]) -> dict[str, str]:
    """Return what the runs of each named place are called: their label, with the place where another bears it too."""
    found = {side: _one_label(side, results) for side, results in named.items()}
    taken = Counter([*found.values(), *others])
    return {side: label if taken[label] == 1 else f"{label} ({side})" for side, label in found.items()}


def _one_label(side: str, results: "Results") -> str:

    labels = sorted({run.label for run in results.runs})
    if len(labels) != 1:
        found = ", ".join(labels) or f"no finished run ({len(results.problems)} that can't be used)"
        raise UsageError(f"{side} should hold the runs of one entry; it holds: {found}. A label can be named instead.")
    return labels[0]


def _shown(score: "Score | None") -> str:
    if score is None:
        return "-"
    interval = score.interval
    return number(score.value, 3) + (f" [{number(interval.low, 3)}, {number(interval.high, 3)}]" if interval else "")
