"""Error rates and coverage of the verbs themselves, on made runs of agents whose truth is known.

    python benchmarks/verdicts.py                  agents 2, 3, 8 x tasks 1, 4, 16 x repeats 2, 3, 5, 10 x five shapes
    python benchmarks/verdicts.py --agents 3 --tasks 4 --repeats 2,3 --shapes bimodal --tables 100

Runs are made in memory, and ``evopolicygym.leaderboard``, ``compare``, ``effects`` and ``headroom`` read them in place
of a directory; everything after reading is what a command does. Equal agents give false verdicts, as shares of tables:
a *tier* is a second tier, *task* a task that ``compare`` decides, *over all* its verdict over all tasks, *effect* a
difference of two equal levels, *headroom* a task or a suite that distinguishes agents. *found* is the share of tables
in which ``compare`` names the better of two agents over all tasks that differ by a run's standard deviation, beside
what ``power`` forecasts. Coverage is the share of 95 % intervals that contain the truth; a dash is what has none.
Standard errors are over tables, and at least 1 / tables.
"""

import argparse
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

import evopolicygym
from evopolicygym.analysis.published.score_tables import paper, shipped
from evopolicygym.analysis.ranking.power import TaskVariances, find_power
from evopolicygym.analysis.results import Results
from evopolicygym.api import results as verbs
from evopolicygym.core.task import Anchor
from evopolicygym.records.rows import CurvePoint, RunRow

CASES, VALIDATION = 32, 16
LOW, BEST = -6.0, 4.0
"""Random play, and the reference policy's score."""
FAILS = 0.1
"""The chance that a run fails, of the shape ``rare``."""
Runs = Callable[[np.random.Generator, int], np.ndarray]
"""Returns an agent's returns, shaped (repeats, cases), with a mean of 0 over runs and cases."""


def normal(random: np.random.Generator, repeats: int) -> np.ndarray:
    """Return runs that vary normally."""
    return np.asarray(random.normal(size=(repeats, 1)) + 0.5 * random.normal(size=(repeats, CASES)))


def skewed(random: np.random.Generator, repeats: int) -> np.ndarray:
    """Return runs with a long tail below."""
    return np.asarray(1.5 - random.exponential(size=(repeats, 1)) - 0.5 * random.exponential(size=(repeats, CASES)))


def bimodal(random: np.random.Generator, repeats: int) -> np.ndarray:
    """Return runs that solve a task or don't, with equal chances."""
    sides = np.where(random.random((repeats, 1)) < 0.5, -1.0, 1.0)  # noqa: PLR2004 - equal chances
    return np.asarray(sides + 0.1 * random.normal(size=(repeats, CASES)))


def binary(random: np.random.Generator, repeats: int) -> np.ndarray:
    """Return runs whose returns are -1 or 1, with a chance that varies between runs."""
    solved = random.random((repeats, CASES)) < random.beta(2, 2, size=(repeats, 1))
    return np.where(solved, 1.0, -1.0)


def rare(random: np.random.Generator, repeats: int) -> np.ndarray:
    """Return runs of which one in ten fails."""
    failed = random.random((repeats, 1)) < FAILS
    return np.asarray(np.where(failed, -3.0, 3.0 * FAILS / (1 - FAILS)) + 0.3 * random.normal(size=(repeats, CASES)))


SHAPES: Mapping[str, Runs] = {"normal": normal, "skewed": skewed, "bimodal": bimodal, "0/1": binary, "rare": rare}
OF_CASES = {"normal": 0.5, "skewed": 0.5}
"""Standard deviation of the cases' effects, which all agents share."""


@cache
def template() -> RunRow:
    """Return a run whose results are replaced."""
    return next(run for run in shipped("baselines").runs if run.agent == "tuner")


def make_runs(
    shape: str, agents: int, tasks: int, repeats: int, random: np.random.Generator, apart: float = 0.0
) -> list[RunRow]:
    """Return runs of agents, each better than the next by an amount, on tasks."""
    found = []
    for task in sorted(paper().tasks)[:tasks]:
        cases, validation = (OF_CASES.get(shape, 0.0) * random.normal(size=count) for count in (CASES, VALIDATION))
        for agent in range(agents):
            returns = SHAPES[shape](random, repeats) + cases - apart * agent
            for seed, row in enumerate(returns):
                candidates = row.mean() - cases.mean() + validation.mean() + 0.2 * random.normal(size=2)
                found.append(
                    replace(
                        template(), run_id=f"{agent}-{task}-{seed}", root=Path(f"{agent}-{task}-{seed}"), task=task,
                        family=paper().tasks[task].family, agent=f"agent-{agent}", agent_kind=f"agent-{agent}",
                        model=None,
                        seed=seed, commitment=task, held_out_returns=tuple(row.tolist()), validation_cases=VALIDATION,
                        success_rate=float((row > 0).mean()) if shape == "0/1" else None,
                        curve=tuple(CurvePoint(64 * (at + 1), value) for at, value in enumerate(candidates.tolist())),
                        validation_mean=float(candidates.max()), random_anchor=Anchor(LOW, 0.01, 256),
                        idle_anchor=None, reference_anchor=Anchor(BEST, 0.01, 256),
                    )
                )  # fmt: skip
    return found


class MadeRuns:
    """Has verbs read made runs in place of a directory."""

    def __init__(self) -> None:
        self.directory = tempfile.mkdtemp()
        self.runs: Sequence[RunRow] = ()
        verbs.load_results = lambda *_, **__: Results(tuple(self.runs))  # type: ignore[assignment]

    def read(self, runs: Sequence[RunRow]) -> str:
        """Have verbs read some runs; return the place to name."""
        self.runs = runs
        return self.directory


def verdicts(made: MadeRuns, runs: Sequence[RunRow], agents: int) -> Iterator[tuple[str, bool]]:
    """Yield each kind of verdict with whether equal agents got it."""
    place = made.read(runs)
    board = evopolicygym.leaderboard(place).groups[0]
    yield "tier", max(standing.tier or 0 for standing in board.standings) > 1
    pair = evopolicygym.compare("agent-0", "agent-1", place).pair
    yield "task", any(task.verdict in {"first", "second"} for task in pair.tasks)
    yield "over all", pair.verdict in {"first", "second"}
    two = [run for run in runs if run.agent in {"agent-0", "agent-1"}]
    levels = [
        replace(run, agent="agent", agent_kind="agent", budget=64 * (1 + (run.agent == "agent-1"))) for run in two
    ]
    differences = evopolicygym.effects(made.read(levels), in_returns=True).effects.differences
    yield "effect", any(row.p_adjusted is not None and row.p_adjusted < 0.05 for row in differences)  # noqa: PLR2004
    if agents > 2:  # noqa: PLR2004 - headroom takes three
        (headroom,) = evopolicygym.headroom(made.read(runs)).found.values()
        known = [row.p for row in headroom.tasks] + [headroom.p]
        yield "headroom", any(p is not None and p < 0.05 for p in known)  # noqa: PLR2004


def coverage(made: MadeRuns, runs: Sequence[RunRow]) -> Iterator[tuple[str, float, bool]]:
    """Yield for each kind of interval of equal agents the share that contains the truth, and whether there was one."""
    board = evopolicygym.leaderboard(made.read(runs)).groups[0]
    trials: dict[str, list[bool | None]] = defaultdict(list)

    def add(name: str, interval: object, true: float) -> None:
        low, high = getattr(interval, "low", None), getattr(interval, "high", None)
        trials[name].append(None if low is None or high is None else low <= true <= high)

    for standing in board.standings:
        for score in standing.tasks.values() if standing.entry.runs else ():
            add("mean", score.cell.interval, 0.0)
            add("optimism", score.cell.selection_optimism.interval if score.cell.selection_optimism else None, CHOICE)
            if score.cell.success_interval:
                add("success", score.cell.success_interval, 0.5)
    for normalise in ("best", "known"):
        found = replace(board, normalise=normalise).aggregates
        scales = found.scales.values()
        true = (
            1.0 if normalise == "best" else float(np.mean([-scale.low / (scale.best - scale.low) for scale in scales]))
        )
        for row in found.entries:
            if row.entry.runs:
                add(f"aggregate, {normalise}", row.mean.interval, true)
    pair = evopolicygym.compare("agent-0", "agent-1", made.directory).pair
    for task in pair.tasks:
        add("difference", task.interval, 0.0)
    for name, held in trials.items():
        known = [trial for trial in held if trial is not None]
        yield name, float(np.mean(known)) if known else 0.0, bool(known)


CHOICE = 0.2 * 1 / np.sqrt(np.pi)
"""Selection's optimism: the expected maximum of two normal draws of standard deviation 0.2."""


def share(trials: Sequence[float]) -> str:
    """Return a share in per cent with its standard error."""
    value = float(np.mean(trials))
    return f"{100 * value:.0f} ± {100 * max(float(np.std(trials)) / len(trials) ** 0.5, 1 / len(trials)):.0f}"


def main() -> None:
    """Print a row for each cell of the grid, as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])

    def numbers(text: str) -> list[int]:
        return [int(part) for part in text.split(",")]

    parser.add_argument("--agents", type=numbers, default=[2, 3, 8])
    parser.add_argument("--tasks", type=numbers, default=[1, 4, 16])
    parser.add_argument("--repeats", type=numbers, default=[2, 3, 5, 10])
    parser.add_argument("--shapes", type=lambda text: text.split(","), default=list(SHAPES))
    parser.add_argument("--tables", type=int, default=100, help="tables behind each figure of a row")
    options = parser.parse_args()
    made = MadeRuns()
    kinds = ["tier", "task", "over all", "effect", "headroom"]
    covered = ["mean", "success", "difference", "optimism", "aggregate, best", "aggregate, known"]
    columns = ["agents", "tasks", "repeats", "shape", *kinds, "found", "forecast", *covered]
    print("|", " | ".join(columns), "|\n|" + "---|" * len(columns))
    cells = [
        (agents, tasks, repeats, shape)
        for agents in options.agents
        for tasks in options.tasks
        for shape in options.shapes
        for repeats in options.repeats
    ]
    for at, (agents, tasks, repeats, shape) in enumerate(cells):
        random = np.random.default_rng(at)
        found: dict[str, list[float]] = defaultdict(list)
        for _ in range(options.tables):
            runs = make_runs(shape, agents, tasks, repeats, random)
            for name, is_false in verdicts(made, runs, agents):
                found[name].append(is_false)
            for name, held, is_known in coverage(made, runs):
                found[name] += [held] if is_known else []
            different = make_runs(shape, 2, tasks, repeats, random, 1.0)
            comparison = evopolicygym.compare("agent-0", "agent-1", made.read(different))
            found["found"].append(comparison.pair.verdict == "first")
        variances = [TaskVariances("", 1.0, 0.25, 0.0, 8.0, None)] * tasks
        forecast = find_power(1.0, variances, repeats, CASES)
        row = [share(found[name]) if found[name] else "-" for name in (*kinds, "found")]
        row.append(f"{100 * forecast:.0f}" if shape in {"normal", "skewed", "bimodal"} else "-")
        row += [share(found[name]) if found[name] else "-" for name in covered]
        print(f"| {agents} | {tasks} | {repeats} | {shape} |", " | ".join(row), "|", flush=True)


if __name__ == "__main__":
    main()
