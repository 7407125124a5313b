"""How often nominal 95 % intervals contain the truth.

    python benchmarks/intervals.py                     200 tables of each scenario
    python benchmarks/intervals.py --shapes            by shape of returns, tasks and repeats

All entries are synthetic, so the truth is known. Scenarios differ in what varies: runs, cases that all agents share,
and a run on a case; returns are normal, or skewed as those of a policy that fails now and then. The truth about an
agent is its score with infinitely many repeats on infinitely many cases.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from rich.console import Console
from rich.progress import track

from draws import Draw, bimodal, normal, skewed
from evopolicygym.analysis.ranking.aggregates import aggregates, interquartile_mean, optimality_gap
from evopolicygym.analysis.ranking.bootstrap import Block, Resampler, Sample
from evopolicygym.analysis.ranking.known_scale import KnownScale
from evopolicygym.analysis.ranking.leaderboard import leaderboard
from evopolicygym.analysis.ranking.pairing import pairing
from evopolicygym.analysis.ranking.score_table import Cell, Entry, ScoreTable, TaskRow
from evopolicygym.analysis.ranking.task_scale import KNOWN
from evopolicygym.core.score import normalised, rank_scores
from evopolicygym.core.task import TaskKind

TASKS, CASES, REPLICATES = 16, 32, 500
ANCHOR = -6.0
REPEATS = (2, 3, 5, 10)
DRAWS = 10_000
SUMMARISED = (
    *("task mean", "rank score", "normalised"),
    *("compare: task", "compare: normalised", "compare: improvement"),
)
"""The intervals whose coverage is summed up over scenarios."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """The sources of variance of synthetic returns."""

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
"""Runs vary most; effects of the last are one of two values, with equal chances."""
SHAPE_REPEATS = (1, 2, 3, 5, 10)
SHAPE_TABLES = {16: 40, 1: 120}
"""Tables behind each coverage with --shapes, by the number of tasks."""
BEST_KNOWN = 4.0


@dataclass(frozen=True, slots=True)
class Share:
    """A share of intervals or of tables."""

    value: float
    error: float
    """Its standard error over tables; binomial if each table has one trial, and at least 1 / tables."""

    def __str__(self) -> str:
        return f"{100 * self.value:.0f} ± {100 * self.error:.0f}"


def estimate_share(tables: Sequence[Sequence[bool]]) -> Share:
    """Return the share of trials that hold; trials of a table depend on each other, those of two tables don't."""
    shares = np.array([np.mean(trials) for trials in tables])
    return Share(float(shares.mean()), max(float(shares.std()) / len(shares) ** 0.5, 1 / len(shares)))


def main() -> None:
    """Print the share of intervals that contain the truth, by scenario and number of repeats."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tables", type=int, default=200, help="synthetic tables for each cell; not with --shapes")
    parser.add_argument("--shapes", action="store_true", help="show shapes by tasks and repeats instead")
    arguments = parser.parse_args()
    if arguments.shapes:
        show_shapes()
        return
    cells = [(scenario, repeats) for scenario in SCENARIOS for repeats in REPEATS]
    found = {
        (scenario.name, repeats): coverage(scenario, repeats, arguments.tables, seed=1000 + place)
        for place, (scenario, repeats) in enumerate(track(cells, "drawing", console=Console(stderr=True)))
    }
    names = [*found[cells[0][0].name, REPEATS[0]]]
    print("| scenario | repeats |", " | ".join(names), "|\n" + "|---" * (2 + len(names)) + "|")
    for (scenario, repeats), shares in found.items():
        print(f"| {scenario} | {repeats} |", " | ".join(str(shares[name]) for name in names), "|")
    print("\nFrom the worst to the best of the scenarios, in per cent:\n")
    print("| returns | repeats |", " | ".join(SUMMARISED), "|\n" + "|---" * (2 + len(SUMMARISED)) + "|")
    for draw, numbers in (("normal", [(repeats,) for repeats in REPEATS]), ("skewed", [REPEATS])):
        for asked in numbers:
            chosen = [found[one.name, count] for one in SCENARIOS if one.draw.__name__ == draw for count in asked]
            ranges = " | ".join(range_of([shares[name].value for shares in chosen]) for name in SUMMARISED)
            print(f"| {draw} | {', '.join(map(str, asked))} | {ranges} |")


def range_of(values: Sequence[float]) -> str:
    """Return the least and the largest of some shares in per cent."""
    return f"{100 * min(values):.0f} to {100 * max(values):.0f}"


def show_shapes() -> None:
    """Print coverage in per cent by shape, number of tasks and repeats, as a Markdown table.

    Each row is printed as soon as it is known: on one quiet core all take about three minutes.
    """
    cells = [(tasks, shape, repeats) for tasks in SHAPE_TABLES for shape in SHAPES for repeats in SHAPE_REPEATS]
    names: list[str] = []
    for place, (tasks, shape, repeats) in enumerate(cells):
        found = dict(coverage(shape, repeats, SHAPE_TABLES[tasks], 7000 + place, tasks))
        if not names:
            names = [*found]
            print("| tasks | shape | repeats |", " | ".join(names), "|")
            print("|---" * (3 + len(names)) + "|")
        shares = (str(found.get(name, "-")) for name in names)
        print(f"| {tasks} | {shape.name} | {repeats} |", " | ".join(shares), "|", flush=True)


def coverage(scenario: Scenario, repeats: int, tables: int, seed: int, tasks: int = TASKS) -> Mapping[str, Share]:
    """Return, for each kind of interval, the share that contains the truth."""
    random = np.random.default_rng(seed)
    covered: dict[str, list[list[bool]]] = defaultdict(list)
    differences = draw_differences(scenario, random)
    for _ in range(tables):
        truth = draw_truth(scenario, random, tasks)
        table = draw_table(scenario, truth, repeats, random)
        of_table: dict[str, list[bool]] = defaultdict(list)
        for name, low, true, high in (
            *intervals(table, truth, differences, Resampler(REPLICATES)),
            *aggregate_intervals(scenario, table, truth, random),
        ):
            of_table[name].append(low <= true <= high)
        for name, trials in of_table.items():
            covered[name].append(trials)
    return {name: estimate_share(trials) for name, trials in covered.items()}


def draw_differences(scenario: Scenario, random: np.random.Generator) -> np.ndarray:
    """Return draws of the difference of the means of two runs of equal agents on the same cases."""
    of_runs = scenario.runs * scenario.draw(random, (2, DRAWS))
    rest = scenario.rest * scenario.draw(random, (2, DRAWS, CASES)).mean(axis=2)
    first, second = of_runs + rest
    return np.asarray(first - second)


def aggregate_intervals(
    scenario: Scenario, table: ScoreTable, truth: Mapping[str, Mapping[str, float]], random: np.random.Generator
) -> Iterator[tuple[str, float, float, float]]:
    """Yield the aggregates' intervals as ``intervals`` does; the truth is that of infinitely many runs and cases."""
    effects = scenario.runs * scenario.draw(random, (DRAWS // len(truth),))
    for row in aggregates(table, normalise=KNOWN, resampler=Resampler(REPLICATES, 0)).entries:
        if row.entry.kind != "agent":
            continue
        means = np.array([of_task[row.entry.label] for of_task in truth.values()])
        scores = (np.concatenate([mean + effects for mean in means]) - ANCHOR) / (BEST_KNOWN - ANCHOR)
        of_tasks = (means - ANCHOR) / (BEST_KNOWN - ANCHOR)
        for name, score, true in (
            ("interquartile mean", row.interquartile_mean, interquartile_mean(scores)),
            ("median", row.median, np.median(of_tasks)),
            ("mean", row.mean, of_tasks.mean()),
            ("optimality gap", row.optimality_gap, optimality_gap(scores)),
        ):
            if score.interval:
                yield name, score.interval.low, float(true), score.interval.high


def draw_truth(scenario: Scenario, random: np.random.Generator, tasks: int = TASKS) -> dict[str, dict[str, float]]:
    """Return each agent's true mean on each task."""
    return {
        f"task-{task}": {f"agent-{place}": float(random.normal(2 - place / 2, 1.0)) for place in range(scenario.agents)}
        for task in range(tasks)
    }


def draw_table(
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
    table: ScoreTable, truth: Mapping[str, Mapping[str, float]], differences: np.ndarray, resampler: Resampler
) -> Iterator[tuple[str, float, float, float]]:
    """Yield the name, the low end, the true value and the high end of each interval of a table.

    ``differences`` are draws of the difference of two runs of equal agents on the same cases.
    """
    ranks = [rank_scores({**means, "random": ANCHOR}) for means in truth.values()]
    norms = {
        agent: np.mean([normalised(means[agent], ANCHOR, max(means.values())) for means in truth.values()])
        for agent in next(iter(truth.values()))
    }
    for standing in leaderboard(table, resampler=resampler).standings:
        if standing.entry.kind == "anchor":
            continue
        label = standing.entry.label
        for task, score in standing.tasks.items():
            if interval := score.cell.interval:
                yield "task mean", interval.low, truth[task][label], interval.high
        if standing.rank_score.interval:
            interval = standing.rank_score.interval
            yield "rank score", interval.low, float(np.mean([scores[label] for scores in ranks])), interval.high
        if standing.normalised and standing.normalised.interval:
            interval = standing.normalised.interval
            yield "normalised", interval.low, float(norms[label]), interval.high
    for first, second in pairwise(norms):
        found = pairing(table, first, second, resampler)
        if found.improvement.interval:
            interval = found.improvement.interval
            true = np.mean([np.mean(means[first] - means[second] + differences > 0) for means in truth.values()])
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
