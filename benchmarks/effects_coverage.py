"""How often intervals of effects hold the truth, and how often Holm's p-values cry wolf, on simulated suites.

    python benchmarks/effects_coverage.py                 500 suites of each scenario
    python benchmarks/effects_coverage.py --suites 2000

A suite crosses two knobs on environments whose returns have scales of their own. What is true of a level is what
endlessly many repeats on endlessly many held-out cases of these environments, by these agents, would give. Scenarios
differ in how many repeats there are, in whether a knob's effect differs between environments, agents and cases, in what
varies most, and in whether returns are normal or have a long tail below, as those of policies that fail now and then.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np
from rich.console import Console
from rich.progress import track

from draws import Draw, normal, skewed
from evopolicygym.analysis.effects.effects import Effects, LevelDifference, ScoredRun, effects_of
from evopolicygym.analysis.ranking.task_scale import TaskScale

KNOBS = {"budget": (8, 128), "feedback": ("full", "returns")}
WORST = -4.0
"""Random play, in units of an environment's scale."""
SIGNIFICANT = 0.05


@dataclass(frozen=True, slots=True)
class Scenario:
    """What simulated suites are made of; standard deviations are in units of an environment's scale."""

    name: str
    environments: int = 4
    agents: int = 2
    repeats: int = 3
    cases: int = 16
    budget: float = 1.0
    """What the larger budget adds."""
    feedback: float = 0.0
    """What full feedback adds."""
    heterogeneity: float = 0.0
    """By how much effects differ between environments and agents."""
    seeds: float = 0.5
    """What a repeat has in common at all levels."""
    runs: float = 0.5
    on_cases: float = 0.5
    """By how much a level's effect differs between cases, whoever plays."""
    rest: float = 1.0
    """A run on a case."""
    draw: Draw = normal


SCENARIOS = (
    Scenario("the usual"),
    Scenario("effects differ", heterogeneity=0.5),
    Scenario("nothing has an effect", budget=0.0),
    Scenario("nothing has, 2 repeats", budget=0.0, repeats=2),
    Scenario("nothing has, 2 repeats, 1 agent", budget=0.0, repeats=2, agents=1),
    Scenario("nothing has, long tail", budget=0.0, draw=skewed),
    Scenario("5 repeats, runs vary most", repeats=5, runs=1.5, heterogeneity=0.5),
    Scenario("cases vary most", cases=32, runs=0.2, on_cases=1.5),
    Scenario("1 agent, 2 environments, 5 repeats", agents=1, environments=2, repeats=5),
    Scenario("16 environments, 1 agent", environments=16, agents=1, heterogeneity=0.3),
    Scenario("long tail, 5 repeats", repeats=5, draw=skewed, heterogeneity=0.5),
    Scenario("1 repeat, 4 agents", repeats=1, agents=4),
)


@dataclass(frozen=True, slots=True)
class World:
    """The true means of a scenario, in returns; they are fixed while suites are drawn."""

    scenario: Scenario
    scales: np.ndarray
    """By environment."""
    means: np.ndarray
    """Environments by agents by budgets by feedbacks."""

    @classmethod
    def of(cls, scenario: Scenario, random: np.random.Generator) -> "World":
        """Return a world of a scenario."""
        shape = (scenario.environments, scenario.agents)
        levels = np.zeros((*shape, *map(len, KNOBS.values())))
        steps = np.arange(len(KNOBS["budget"]))[:, None]
        full = np.array([1.0, 0.0])[None, :]
        for effect, size in ((steps, scenario.budget), (full, scenario.feedback)):
            own = size + scenario.heterogeneity * (random.normal(size=shape) if size else np.zeros(shape))
            levels += own[:, :, None, None] * effect
        levels += random.normal(size=shape)[:, :, None, None]
        scales = np.exp(random.normal(0, 1.5, scenario.environments))
        return cls(scenario, scales, levels * scales[:, None, None, None])

    def difference(self, one: LevelDifference, found: Effects) -> float:
        """Return the truth of a difference, in the units of the suite's own scales."""
        axis = 2 + list(KNOBS).index(one.knob)
        levels = KNOBS[one.knob]
        at, over = (np.take(self.means, levels.index(level), axis) for level in (one.level, one.over))
        by_environment = (at - over).mean(axis=(1, 2))
        names = [one.environment] if one.environment else list(found.scales)
        units = [by_environment[int(name)] / (found.scales[name].best - found.scales[name].low) for name in names]
        return float(np.mean(units))


def suite(world: World, random: np.random.Generator) -> Effects:
    """Return the effects of one simulated suite."""
    of, draw = world.scenario, world.scenario.draw
    shape = world.means.shape
    seeds = of.seeds * draw(random, (of.environments, of.agents, 1, 1, of.repeats, 1))
    runs = of.runs * draw(random, (*shape, of.repeats, 1))
    cases = draw(random, (of.environments, 1, 1, 1, 1, of.cases))
    on_cases = of.on_cases * draw(random, (of.environments, 1, *shape[2:], 1, of.cases))
    rest = of.rest * draw(random, (*shape, of.repeats, of.cases))
    noise = seeds + runs + cases + on_cases + rest
    returns = world.means[..., None, None] + noise * world.scales[:, None, None, None, None, None]
    low = WORST * world.scales
    best = returns.mean(axis=(4, 5)).reshape(of.environments, -1).max(axis=1)
    scales = {str(at): TaskScale(float(low[at]), float(best[at]), ()) for at in range(of.environments)}
    scores = (returns - low[:, None, None, None, None, None]) / (best - low)[:, None, None, None, None, None]
    return effects_of(list(_runs(scores)), KNOBS, scales)


def _runs(scores: np.ndarray) -> Iterator[ScoredRun]:
    for environment, agent, budget, feedback, seed in product(*map(range, scores.shape[:5])):
        levels = {"budget": KNOBS["budget"][budget], "feedback": KNOBS["feedback"][feedback]}
        yield ScoredRun(str(environment), agent, seed, levels, scores[environment, agent, budget, feedback, seed])


@dataclass(frozen=True, slots=True)
class Coverage:
    """What came of a scenario's suites."""

    covered: Mapping[str, float]
    """The share of intervals that held the truth, over all environments and on each of them."""
    false_positives: float
    """The share of suites in which Holm's p-values found an effect that there is not, anywhere."""
    power: float | None
    """The share of effects over all environments that were found; None where there are none."""


def coverage(scenario: Scenario, suites: int, seed: int = 0) -> Coverage:
    """Return how often a scenario's suites are right."""
    random = np.random.default_rng(seed)
    world = World.of(scenario, random)
    covered: dict[str, list[bool]] = defaultdict(list)
    wolves, seen = [], []
    for _ in range(suites):
        found = suite(world, random)
        wolf = False
        for one in found.differences:
            truth, interval = world.difference(one, found), one.difference.interval
            where = "each environment" if one.environment else "all environments"
            covered[where].append(interval is not None and interval.low <= truth <= interval.high)
            positive = one.p_adjusted is not None and one.p_adjusted <= SIGNIFICANT
            if truth == 0:
                wolf |= positive
            elif not one.environment:
                seen.append(positive)
        wolves.append(wolf)
    shares = {where: float(np.mean(held)) for where, held in covered.items()}
    return Coverage(shares, float(np.mean(wolves)), float(np.mean(seen)) if seen else None)


def main() -> None:
    """Print the table of all scenarios."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--suites", type=int, default=500)
    suites = parser.parse_args().suites
    print("| scenario | covered, over all environments, % | on each, % | suites with a false positive, % | found, % |")
    print("|---|---|---|---|---|")
    for at, scenario in enumerate(track(SCENARIOS, "suites", console=Console(stderr=True))):
        came = coverage(scenario, suites, at)
        shares = [came.covered[where] for where in ("all environments", "each environment")]
        figures = " | ".join(f"{100 * share:.1f}" for share in (*shares, came.false_positives))
        power = "-" if came.power is None else f"{100 * came.power:.0f}"
        print(f"| {scenario.name} | {figures} | {power} |", flush=True)


if __name__ == "__main__":
    main()
