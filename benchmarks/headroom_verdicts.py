"""How often verdicts on headroom are wrong, on simulated suites of agents whose true scores are known.

    python benchmarks/headroom_verdicts.py                 200 suites of each scenario
    python benchmarks/headroom_verdicts.py --suites 1000

A suite has 16 tasks of 32 held-out cases. Agents are equal on every task, or differ by a known standard deviation.
Uniform random is 6 below the agents' mean, so that the scale is about 6; the best known score is that of the best
agent, or a reference above all of them. Returns are made as in ``intervals.py``.
"""

import argparse
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from rich.console import Console
from rich.progress import track

from draws import normal, skewed
from evopolicygym.analysis.headroom.headroom import Headroom, headroom
from evopolicygym.analysis.headroom.spread import LEVEL, HeadroomVerdict
from evopolicygym.analysis.ranking.score_table import Cell, Entry, ScoreTable
from intervals import TASKS, Scenario, draw_table

REPEATS = (1, 2, 3, 5)
REFERENCE_ERROR = 0.01
COUNTED = (
    (HeadroomVerdict.DISTINGUISHES, HeadroomVerdict.NEARLY_SPENT),
    (HeadroomVerdict.SPENT,),
    (HeadroomVerdict.TOO_HARD_OR_NOISY,),
)
"""The verdicts on tasks whose shares are printed."""


@dataclass(frozen=True, slots=True)
class Suites:
    """What simulated suites are made of."""

    returns: Scenario
    apart: float = 0.0
    """Standard deviation of agents' true means on a task; 0 for equal agents."""
    reference: float | None = None
    """How far above the agents' mean a reference is; None without one."""


@dataclass(frozen=True, slots=True)
class Found:
    """What verdicts say of simulated suites, as shares."""

    tasks: Mapping[HeadroomVerdict, float]
    suites: Mapping[HeadroomVerdict, float]
    any_difference: float
    """Suites in which any task, or the mean over tasks, is said to distinguish agents."""


SCENARIOS = (
    Suites(Scenario("4 equal agents, little varies", 4, 0.2, 0.5, 0.3, normal)),
    Suites(Scenario("6 equal agents, cases vary most", 6, 0.2, 2.0, 1.0, normal)),
    Suites(Scenario("6 equal agents, runs vary most", 6, 1.5, 0.5, 0.5, normal)),
    Suites(Scenario("6 equal agents, skewed", 6, 0.5, 1.0, 1.0, skewed)),
    Suites(Scenario("4 equal agents below a reference", 4, 0.2, 0.5, 0.3, normal), reference=4.0),
    Suites(Scenario("6 agents, little apart", 6, 0.3, 0.5, 0.5, normal), apart=0.3),
    Suites(Scenario("6 agents, apart", 6, 0.3, 0.5, 0.5, normal), apart=1.0),
    Suites(Scenario("6 agents, apart, skewed", 6, 0.5, 1.0, 1.0, skewed), apart=1.0),
)


def main() -> None:
    """Print the shares of verdicts, by scenario and number of repeats."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--suites", type=int, default=200, help="simulated suites for each row")
    count = parser.parse_args().suites
    rows = [(scenario, repeats) for scenario in SCENARIOS for repeats in REPEATS]
    print("| scenario | repeats | any difference, % | tasks with one, % | spent, % | noisy, % |")
    print("|---|---|---|---|---|---|")
    for place, (scenario, repeats) in enumerate(track(rows, "drawing", console=Console(stderr=True))):
        found = verdicts(scenario, repeats, count, seed=2000 + place)
        tasks = [100 * sum(found.tasks.get(verdict, 0.0) for verdict in verdicts) for verdicts in COUNTED]
        shares = (f"{value:.1f}" for value in (100 * found.any_difference, *tasks))
        print(f"| {scenario.returns.name} | {repeats} | {' | '.join(shares)} |", flush=True)


def verdicts(scenario: Suites, repeats: int, count: int, seed: int) -> Found:
    """Return what verdicts say of a number of suites."""
    random = np.random.default_rng(seed)
    each = [headroom(suite(scenario, repeats, random)) for _ in range(count)]
    of_tasks = Counter(task.verdict for one in each for task in one.tasks)
    of_suites = Counter(one.verdict for one in each)
    differing = sum(map(_differs, each))
    return Found(
        {one: number / of_tasks.total() for one, number in of_tasks.most_common()},
        {one: number / count for one, number in of_suites.most_common()},
        differing / count,
    )


def suite(scenario: Suites, repeats: int, random: np.random.Generator) -> ScoreTable:
    """Return the table of one simulated suite."""
    agents = [f"agent-{place}" for place in range(scenario.returns.agents)]
    truth = {
        f"task-{task}": {agent: float(random.normal(0.0, scenario.apart)) for agent in agents} for task in range(TASKS)
    }
    table = draw_table(scenario.returns, truth, repeats, random)
    if scenario.reference is None:
        return table
    cells = {task: Cell(scenario.reference, REFERENCE_ERROR) for task in truth}
    return replace(table, entries=(Entry("reference", "reference", cells, "simulated"), *table.entries))


def _differs(found: Headroom) -> bool:
    wrong = {HeadroomVerdict.DISTINGUISHES, HeadroomVerdict.NEARLY_SPENT}
    whole = found.spread is not None and found.spread.is_repeated and (found.p or 0.0) < LEVEL
    return whole or any(one.verdict in wrong for one in found.tasks)


if __name__ == "__main__":
    main()
