"""Whether forecasts of ``evopolicygym power`` come true, on simulated suites.

    python benchmarks/power.py                     400 suites of each row

Each suite has two agents that differ by the same amount on each task. The forecast is from the variances that returns
are drawn with; the found share is that of suites in which ``compare`` names the better agent on a task (at the level
of Holm's first step, as one of 16 differs), or over all tasks. The last column is the share of pilots, of two agents
with five runs each, whose range of repeats holds the right number.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.progress import track

from draws import Draw, bimodal, normal, skewed, table_of
from evopolicygym.analysis.ranking.bootstrap import Block, Resampler, Sample
from evopolicygym.analysis.ranking.noise import NoiseFloor, noise_floor
from evopolicygym.analysis.ranking.pairing import pairing
from evopolicygym.analysis.ranking.power import LEVEL, Plan, TaskVariances, find_power, forecast, repeats_to_find
from evopolicygym.analysis.ranking.score_table import ScoreTable

ANCHOR, SCALE = -10.0, 10.0
PILOTS = 100


@dataclass(frozen=True, slots=True)
class Scenario:
    """A simulated suite: what varies, and what is asked."""

    name: str
    runs: float
    """Standard deviation between runs; on every second of several tasks it is half as large."""
    rest: float
    interaction: float
    """Standard deviation over cases of the difference between two agents."""
    difference: float
    repeats: int
    cases: int = 32
    tasks: int = 1
    draw: Draw = normal

    @property
    def variances(self) -> list[TaskVariances]:
        """What the forecast is told."""
        return [
            TaskVariances(
                f"task-{at}", (self.runs / (1 + at % 2)) ** 2, self.rest**2, self.interaction**2, 8.0, SCALE
            )
            for at in range(self.tasks)
        ]  # fmt: skip


SCENARIOS = (
    Scenario("runs vary most", 1.0, 0.5, 0.0, 1.5, 5),
    Scenario("runs vary most, 3 repeats", 1.0, 0.5, 0.0, 2.5, 3),
    Scenario("runs vary most, 2 repeats", 1.0, 0.5, 0.0, 6.0, 2),
    Scenario("a run on a case varies most", 0.1, 3.0, 0.0, 0.8, 5),
    Scenario("agents differ by case", 0.5, 1.0, 2.0, 1.5, 5),
    Scenario("8 cases", 0.5, 2.0, 0.0, 1.3, 5, 8),
    Scenario("10 repeats", 1.0, 1.0, 0.5, 1.2, 10),
    Scenario("a task of 16", 1.0, 1.0, 0.0, 3.0, 5, tasks=16),
    Scenario("mean over 16", 1.0, 1.0, 0.0, 0.45, 5, tasks=16),
    Scenario("mean over 16, 3 repeats", 1.0, 1.0, 0.5, 0.55, 3, tasks=16),
    Scenario("skewed", 1.0, 0.5, 0.0, 1.5, 5, draw=skewed),
    Scenario("bimodal", 1.0, 0.5, 0.0, 1.5, 5, draw=bimodal),
)


def main() -> None:
    """Print the power that is forecast and the one that is found, by scenario."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--suites", type=int, default=400, help="simulated suites for each row")
    count = parser.parse_args().suites
    print("| scenario | repeats | difference | forecast, % | found, % ± s.e. | range holds, % ± s.e. |")
    print("|---|---|---|---|---|---|")
    for at, scenario in enumerate(track(SCENARIOS, "drawing", console=Console(stderr=True))):
        found = share(list(detections(scenario, count, seed=4000 + at)))
        held = share(list(pilots(scenario, PILOTS, seed=5000 + at))) if scenario.tasks == 1 else "-"
        asked = f"{scenario.name} | {scenario.repeats} | {scenario.difference:g}"
        print(f"| {asked} | {100 * expected(scenario):.0f} | {found} | {held} |", flush=True)


def share(trials: Sequence[bool]) -> str:
    """Return a share in per cent with its standard error, at least that of one trial."""
    value = float(np.mean(trials))
    return f"{100 * value:.0f} ± {100 * max(np.sqrt(value * (1 - value) / len(trials)), 1 / len(trials)):.0f}"


def expected(scenario: Scenario) -> float:
    """Return the power that is forecast."""
    if scenario.name.startswith("mean"):
        return find_power(scenario.difference, scenario.variances, scenario.repeats, scenario.cases)
    level = LEVEL / scenario.tasks
    return find_power(scenario.difference, scenario.variances[:1], scenario.repeats, scenario.cases, level)


def detections(scenario: Scenario, count: int, seed: int) -> Iterator[bool]:
    """Yield for each simulated suite whether the comparison finds the difference."""
    random = np.random.default_rng(seed)
    over_all = scenario.name.startswith("mean")
    for trial in range(count):
        pair = pairing(_suite(scenario, random, 1 if over_all else 0), "a", "b", Resampler(300, trial))
        if over_all:
            yield pair.verdict == "first"
        else:
            yield next(task for task in pair.tasks if task.task == "task-0").verdict == "first"


def pilots(scenario: Scenario, count: int, seed: int) -> Iterator[bool]:
    """Yield for each simulated pilot whether its range of repeats holds the number that the true variances give."""
    random = np.random.default_rng(seed)
    (truth,) = scenario.variances
    right = repeats_to_find(scenario.difference, [truth], 0.8, scenario.cases)
    plan = Plan(scenario.difference, is_normalised=False, cases=scenario.cases)
    for _ in range(count):
        floor = noise_floor(_samples(scenario, truth, 5, random))
        if floor is None or right is None:
            continue
        (found,) = forecast(plan, [_estimated(truth, floor)])
        yield found.range is not None and found.range[0] <= right <= (found.range[1] or 10**6)


def _estimated(truth: TaskVariances, floor: NoiseFloor) -> TaskVariances:
    runs, rest = (floor.components.runs, floor.components.rest) if floor.components else (0.0, 0.0)
    return TaskVariances(truth.task, runs, rest, floor.interaction or 0.0, floor.pooled.freedom, SCALE)


def _suite(scenario: Scenario, random: np.random.Generator, every: int) -> ScoreTable:
    """Return a suite whose first agent is better on the first task, or on every one."""
    returns = {}
    for at, task in enumerate(scenario.variances):
        for label, sample in zip("ab", _samples(scenario, task, scenario.repeats, random), strict=True):
            further = scenario.difference if label == "a" and (every or not at) else 0.0
            returns[label, task.task] = sample.blocks[0].returns + further
    return table_of(returns, ANCHOR)


def _samples(scenario: Scenario, task: TaskVariances, repeats: int, random: np.random.Generator) -> Sequence[Sample]:
    """Return both agents' returns, without a difference of their means."""
    shared, cases = 2 * scenario.draw(random, (scenario.cases,)), (repeats, scenario.cases)
    return [
        Sample((Block(task.task, (
            np.sqrt(task.between) * scenario.draw(random, (repeats, 1)) + shared
            + np.sqrt(task.interaction / 2) * normal(random, (scenario.cases,))
            + np.sqrt(task.rest) * scenario.draw(random, cases)
        )),))
        for _ in "ab"
    ]  # fmt: skip


if __name__ == "__main__":
    main()
