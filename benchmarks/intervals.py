"""How often nominal 95 % intervals hold the truth and equal agents get a verdict, on synthetic entries of known truth.

    python benchmarks/intervals.py                     200 tables of each scenario
    python benchmarks/intervals.py --shapes            one table of shapes, tasks and repeats, with false positives

Scenarios differ in what returns are spread by: effects of runs, of cases that all agents share, and of a run on a case;
normal, or skewed as returns of policies that fail now and then are. What is true of an agent is what endlessly many
repeats on endlessly many cases would give.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from draws import Draw, bimodal, normal, skewed
from evopolicygym.analysis.ranking.aggregates import aggregates, interquartile_mean
from evopolicygym.analysis.ranking.bootstrap import Block, Resampler, Sample
from evopolicygym.analysis.ranking.known_scale import KnownScale
from evopolicygym.analysis.ranking.leaderboard import KNOWN, leaderboard
from evopolicygym.analysis.ranking.noise import noise_floor
from evopolicygym.analysis.ranking.pairing import pairing
from evopolicygym.analysis.ranking.score_table import Cell, Entry, ScoreTable, TaskRow
from evopolicygym.core.score import normalised, rank_scores
from evopolicygym.core.task import TaskKind

TASKS, CASES, REPLICATES = 16, 32, 500
ANCHOR = -6.0
REPEATS = (2, 3, 5, 10)
DRAWS = 20_000


@dataclass(frozen=True, slots=True)
class Scenario:
    """What synthetic returns are made of."""

    name: str
    agents: int
    runs: float
    """Standard deviation of a run's effect."""
    cases: float
    rest: float
    draw: Draw


SCENARIOS = (
    Scenario("3 agents, runs vary most", 3, 1.5, 0.5, 0.5, normal),
    Scenario("6 agents, all vary alike", 6, 1.0, 1.0, 1.0, normal),
    Scenario("6 agents, cases vary most", 6, 0.4, 2.0, 1.0, normal),
    Scenario("6 agents, all skewed", 6, 1.0, 1.0, 1.0, skewed),
    Scenario("4 agents, runs and cases", 4, 1.0, 1.0, 0.3, normal),
    Scenario("5 agents, little varies", 5, 0.3, 0.3, 0.6, skewed),
)
"""The last two came after all choices were made."""
SHAPES = (
    Scenario("normal", 3, 1.0, 0.5, 0.5, normal),
    Scenario("skewed", 3, 1.0, 0.5, 0.5, skewed),
    Scenario("bimodal", 3, 1.0, 0.0, 0.1, bimodal),
)
"""Runs vary most; those of the last are one of two values, with equal chances."""
SHAPE_REPEATS = (1, 2, 3, 5, 10)
BEST_KNOWN = 4.0


def main() -> None:
    """Print the share of intervals that hold the truth, by scenario and number of repeats."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tables", type=int, default=200, help="synthetic tables for each cell")
    parser.add_argument("--shapes", action="store_true", help="show shapes by tasks and repeats instead")
    asked = parser.parse_args()
    tables = asked.tables
    if asked.shapes:
        show_shapes(tables)
        return
    cells = [(scenario, repeats) for scenario in SCENARIOS for repeats in REPEATS]
    console = Console(stderr=True)
    shown = Table("scenario", "repeats", title=f"share of intervals that hold the truth, {tables} tables each")
    for place, (scenario, repeats) in enumerate(track(cells, "drawing", console=console)):
        held = coverage(scenario, repeats, tables, seed=1000 + place)
        if not place:
            for name in held:
                shown.add_column(name, justify="right")
        shown.add_row(scenario.name, str(repeats), *(f"{share:.1%}" for share in held.values()))
    Console(width=120).print(shown)


def show_shapes(tables: int) -> None:
    """Print coverage and false positives by shape, number of tasks and repeats; one task has eight times the tables."""
    cells = [(shape, tasks, repeats) for shape in SHAPES for tasks in (1, 16) for repeats in SHAPE_REPEATS]
    rows = []
    for place, (shape, tasks, repeats) in enumerate(track(cells, "drawing", console=Console(stderr=True))):
        count = tables if tasks > 1 else 8 * tables
        held = coverage(shape, repeats, count, 7000 + place, tasks)
        false = false_positives(shape, repeats, 4 * count, 8000 + place, tasks)
        rows.append((f"{shape.name}, {tasks}", str(repeats), {**held, **false}))
    names = list(dict.fromkeys(name for *_, found in rows for name in found))
    shown = Table("shape, tasks", "repeats", *names, title=f"{tables} tables of 16 tasks, {8 * tables} of one")
    for shape, repeats, found in rows:
        shown.add_row(shape, repeats, *(f"{found[name]:.0%}" if name in found else "-" for name in names))
    Console(width=150).print(shown)


def false_positives(scenario: Scenario, repeats: int, tables: int, seed: int, tasks: int) -> Mapping[str, float]:
    """Return the share of comparisons of two of several equal agents in which any task has a verdict."""
    random, found = np.random.default_rng(seed), []
    truth = {f"task-{task}": {f"agent-{place}": 0.0 for place in range(scenario.agents)} for task in range(tasks)}
    for trial in range(tables):
        table = drawn(scenario, truth, repeats, random)
        noise = {task: noise_floor([s for e in table.entries if (s := e.cells[task].sample)]) for task in truth}
        pair = pairing(table, "agent-0", "agent-1", Resampler(2, trial), noise)
        found.append(any(task.verdict in {"first", "second"} for task in pair.tasks))
    return {"false positive": float(np.mean(found))} if repeats > 1 else {}


def coverage(scenario: Scenario, repeats: int, tables: int, seed: int, tasks: int = TASKS) -> Mapping[str, float]:
    """Return, for each kind of interval, the share that holds the truth."""
    random = np.random.default_rng(seed)
    held: dict[str, list[bool]] = defaultdict(list)
    apart = runs_apart(scenario, random)
    for trial in range(tables):
        truth = truths(scenario, random, tasks)
        table = drawn(scenario, truth, repeats, random)
        for name, low, true, high in intervals(table, truth, apart, Resampler(REPLICATES, trial)):
            held[name].append(low <= true <= high)
        for name, low, true, high in aggregate_intervals(scenario, table, truth, random):
            held[name].append(low <= true <= high)
    return {name: float(np.mean(values)) for name, values in held.items()}


def runs_apart(scenario: Scenario, random: np.random.Generator) -> np.ndarray:
    """Return draws of how far the means of two runs of equal agents lie apart on the same cases."""
    of_runs = scenario.runs * scenario.draw(random, (2, DRAWS))
    rest = scenario.rest * scenario.draw(random, (2, DRAWS, CASES)).mean(axis=2)
    one, other = of_runs + rest
    return np.asarray(one - other)


def aggregate_intervals(
    scenario: Scenario, table: ScoreTable, truth: Mapping[str, Mapping[str, float]], random: np.random.Generator
) -> Iterator[tuple[str, float, float, float]]:
    """Yield interquartile means as ``intervals`` does; true is that of endlessly many runs on endlessly many cases."""
    effects = scenario.runs * scenario.draw(random, (DRAWS // len(truth),))
    for row in aggregates(table, normalise=KNOWN, resampler=Resampler(REPLICATES, 0)).entries:
        if row.entry.kind == "agent" and (interval := row.interquartile_mean.interval):
            runs = np.concatenate([means[row.entry.label] + effects for means in truth.values()])
            true = float(interquartile_mean((runs - ANCHOR) / (BEST_KNOWN - ANCHOR)))
            yield "interquartile mean", interval.low, true, interval.high


def truths(scenario: Scenario, random: np.random.Generator, tasks: int = TASKS) -> dict[str, dict[str, float]]:
    """Return each agent's true mean on each task."""
    return {
        f"task-{task}": {f"agent-{place}": float(random.normal(2 - place / 2, 1.0)) for place in range(scenario.agents)}
        for task in range(tasks)
    }


def drawn(
    scenario: Scenario, truth: Mapping[str, Mapping[str, float]], repeats: int, random: np.random.Generator
) -> ScoreTable:
    """Return a table of entries, as runs of these agents would give it."""
    cells: dict[str, dict[str, Cell]] = defaultdict(dict)
    for task, means in truth.items():
        of_cases = scenario.cases * scenario.draw(random, (CASES,))
        for agent, mean in means.items():
            of_runs = scenario.runs * scenario.draw(random, (repeats, 1))
            rest = scenario.rest * scenario.draw(random, (repeats, CASES))
            sample = Sample((Block(task, mean + of_runs + of_cases + rest),))
            cells[agent][task] = Cell(sample.mean, sample.standard_error, (), sample)
    anchor = Entry("random", "anchor", {task: Cell(ANCHOR, None) for task in truth}, "anchor")
    known = KnownScale(ANCHOR, BEST_KNOWN, "synthetic")
    rows = tuple(TaskRow(task, "family", TaskKind.TUNING, None, known) for task in truth)
    return ScoreTable(rows, (*(Entry(agent, "agent", of_tasks) for agent, of_tasks in cells.items()), anchor))


def intervals(
    table: ScoreTable, truth: Mapping[str, Mapping[str, float]], apart: np.ndarray, resampler: Resampler
) -> Iterator[tuple[str, float, float, float]]:
    """Yield the name, the low end, the true value and the high end of each interval of a table.

    ``apart`` are draws of how far two runs of equal agents lie apart on the same cases.
    """
    ranks = [rank_scores({**means, "random": ANCHOR}) for means in truth.values()]
    norms = {
        agent: np.mean([normalised(means[agent], ANCHOR, max(means.values())) for means in truth.values()])
        for agent in next(iter(truth.values()))
    }
    for one in leaderboard(table, resampler=resampler).standings:
        if one.entry.kind == "anchor":
            continue
        label = one.entry.label
        for task, score in one.tasks.items():
            if interval := score.cell.interval:
                yield "task mean", interval.low, truth[task][label], interval.high
        if one.rank_score.interval:
            interval = one.rank_score.interval
            yield "rank score", interval.low, float(np.mean([scores[label] for scores in ranks])), interval.high
        if one.normalised and one.normalised.interval:
            interval = one.normalised.interval
            yield "normalised", interval.low, float(norms[label]), interval.high
    for first, second in pairwise(norms):
        found = pairing(table, first, second, resampler)
        if found.improvement.interval:
            interval = found.improvement.interval
            true = np.mean([np.mean(means[first] - means[second] + apart > 0) for means in truth.values()])
            yield "compare: improvement", interval.low, float(true), interval.high
        for difference in found.tasks:
            if difference.interval:
                true = truth[difference.task][first] - truth[difference.task][second]
                yield "compare: task", difference.interval.low, true, difference.interval.high
        if found.normalised and found.normalised.interval:
            interval = found.normalised.interval
            yield "compare: normalised", interval.low, float(norms[first] - norms[second]), interval.high


if __name__ == "__main__":
    main()
