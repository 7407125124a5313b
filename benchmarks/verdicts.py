"""Error rates and coverage of the verbs themselves, on made runs of agents whose truth is known.

    python benchmarks/verdicts.py                  agents 2, 3, 8 x tasks 1, 4, 16 x repeats 2, 3, 5, 10 x five shapes
    python benchmarks/verdicts.py --agents 3 --tasks 4 --repeats 2,3 --shapes bimodal --tables 100

``evopolicygym.leaderboard``, ``compare``, ``effects`` and ``headroom`` read run directories, as commands do. Writing a
run's directory takes 20 ms and checking it 8, so only the first table of a cell is on disk, if it has no more than
``--written`` runs; the others are the same runs in memory, in the place of what is read. A table on disk is made in
memory too, and the program ends with an error if any figure differs.

Equal agents give false verdicts, as shares of tables: a *tier* is a second tier, *task* a task that ``compare``
decides, *over all* its verdict over all tasks, *effect* a difference of two equal levels, *headroom* a task or a suite
that distinguishes agents. *found* is the share of tables in which ``compare`` names the better of two agents over all
tasks that differ by a run's standard deviation, beside what ``power`` forecasts. Coverage is the share of 95 %
intervals that contain the truth; a dash is what has none. Standard errors are over tables, and at least 1 / tables. A
cell has its own seed, so its figures are the same whatever else is asked for.
"""

import argparse
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

import evopolicygym
from evopolicygym.analysis.ranking.power import TaskVariances, find_power
from evopolicygym.analysis.results import Results, load_results
from evopolicygym.api.read import results as verbs
from evopolicygym.core.score import estimate
from evopolicygym.core.task import Anchor
from evopolicygym.records.rows import CurvePoint, RunRow
from fakes import TOY
from made_records import MadeRun, write_made

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


def make_runs(
    shape: str, agents: int, tasks: int, repeats: int, random: np.random.Generator, apart: float = 0.0
) -> list[MadeRun]:
    """Return runs of agents, each better than the next by an amount, on tasks."""
    found = []
    for task in range(tasks):
        spec = replace(
            TOY,
            name=f"task-{task:02d}",
            success=TOY.success if shape == "0/1" else None,
            random_anchor=Anchor(LOW, 0.01, 256),
            reference_anchor=Anchor(BEST, 0.01, 256),
        )
        cases, validation = (OF_CASES.get(shape, 0.0) * random.normal(size=count) for count in (CASES, VALIDATION))
        for agent in range(agents):
            returns = SHAPES[shape](random, repeats) + cases - apart * agent
            for seed, row in enumerate(returns):
                means = row.mean() - cases.mean() + validation.mean() + 0.2 * random.normal(size=2)
                candidates = tuple((value,) * VALIDATION for value in means.tolist())
                found.append(MadeRun(spec, f"agent-{agent}", seed, tuple(row.tolist()), candidates))
    return found


class Tables:
    """Made runs where verbs find them: in directories, or in memory in the place of what is read."""

    def __init__(self, below: Path, *, on_disk: bool) -> None:
        self.below = below
        self.on_disk = on_disk
        self._in_memory: dict[Path, tuple[RunRow, ...]] = {}
        self._template: RunRow | None = None
        verbs.load_results = self._load  # type: ignore[assignment]

    def __call__(self, runs: Sequence[MadeRun]) -> Path:
        """Return the directory in which verbs find some runs."""
        place = Path(tempfile.mkdtemp(dir=self.below))
        if self.on_disk:
            for number, run in enumerate(runs):
                write_made(place / f"{number:05d}", run)
        else:
            self._in_memory[place] = tuple(map(self._result, runs))
        return place

    def _load(self, places: Sequence[Path], *arguments: Any, **options: Any) -> Results:  # noqa: ANN401 - as they are
        (place,) = places
        if place in self._in_memory:
            return Results(self._in_memory[place])
        return load_results(places, *arguments, **options)

    def _result(self, run: MadeRun) -> RunRow:
        """Return what a run's directory would be read as."""
        if self._template is None:
            self._template = load_results([write_made(self.below / "template", run)]).runs[0]
        spec, means = run.task, [estimate(returns).mean for returns in run.validation]
        each = run.budget // len(means)
        return replace(
            self._template,
            run_id=run.run_id,
            root=Path(run.run_id),
            task=spec.name,
            agent=run.agent,
            agent_kind=run.agent,
            seed=run.seed,
            budget=run.budget,
            spent=run.budget,
            commitment=f"commitment to {spec.name}",
            held_out_returns=run.held_out,
            success_rate=float(np.mean(np.array(run.held_out) > 0)) if spec.success else None,
            curve=tuple(CurvePoint(each * (at + 1), mean) for at, mean in enumerate(means)),
            validation_mean=max(means),
        )


def verdicts(read: Callable[[Sequence[MadeRun]], Path], runs: Sequence[MadeRun]) -> Iterator[tuple[str, bool]]:
    """Yield each kind of verdict with whether equal agents got it."""
    place, agents = read(runs), len({run.agent for run in runs})
    board = evopolicygym.leaderboard(place).groups[0]
    yield "tier", max(standing.tier or 0 for standing in board.standings) > 1
    pair = evopolicygym.compare("agent-0", "agent-1", place).pair
    yield "task", any(task.verdict in {"first", "second"} for task in pair.tasks)
    yield "over all", pair.verdict in {"first", "second"}
    levels = [
        replace(run, agent="agent", budget=2 * (1 + at))
        for at, label in enumerate(("agent-0", "agent-1"))
        for run in runs
        if run.agent == label
    ]
    differences = evopolicygym.effects(read(levels), in_returns=True).effects.differences
    yield "effect", any(row.p_adjusted is not None and row.p_adjusted < 0.05 for row in differences)  # noqa: PLR2004
    if agents > 2:  # noqa: PLR2004 - headroom takes three
        (headroom,) = evopolicygym.headroom(place).found.values()
        known = [row.p for row in headroom.tasks] + [headroom.p]
        yield "headroom", any(p is not None and p < 0.05 for p in known)  # noqa: PLR2004


def coverage(place: Path) -> Iterator[tuple[str, float | None]]:
    """Yield for each kind of interval of equal agents the share that contains the truth; None where there is none."""
    board = evopolicygym.leaderboard(place).groups[0]
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
    pair = evopolicygym.compare("agent-0", "agent-1", place).pair
    for task in pair.tasks:
        add("difference", task.interval, 0.0)
    for name, held in trials.items():
        known = [trial for trial in held if trial is not None]
        yield name, float(np.mean(known)) if known else None


CHOICE = 0.2 * 1 / np.sqrt(np.pi)
"""Selection's optimism: the expected maximum of two normal draws of standard deviation 0.2."""


KINDS = ("tier", "task", "over all", "effect", "headroom")
COVERED = ("mean", "success", "difference", "optimism", "aggregate, best", "aggregate, known")
ALLOWED, LEAST = 0.05, 0.9
"""The largest share of false verdicts, and the smallest coverage, that are not named below the table."""


def error_of(trials: Sequence[float]) -> float:
    """Return the standard error of a share."""
    return max(float(np.std(trials)) / len(trials) ** 0.5, 1 / len(trials))


def share(trials: Sequence[float]) -> str:
    """Return a share in per cent with its standard error."""
    return f"{100 * float(np.mean(trials)):.0f} ± {100 * error_of(trials):.0f}" if trials else "-"


def figures(read: Tables, runs: Sequence[MadeRun], different: Sequence[MadeRun]) -> list[tuple[str, float]]:
    """Return all that one table says, by the column that it counts in."""
    found = [(name, float(is_false)) for name, is_false in verdicts(read, runs)]
    found += [(name, held) for name, held in coverage(read(runs)) if held is not None]
    comparison = evopolicygym.compare("agent-0", "agent-1", read(different))
    return [*found, ("found", float(comparison.pair.verdict == "first"))]


def cell(agents: int, tasks: int, repeats: int, shape: str, tables: int, *, written: bool) -> dict[str, list[float]]:
    """Return the figures of all tables of a cell by column, checking those of the first one if it is written."""
    random = np.random.default_rng([agents, tasks, repeats, list(SHAPES).index(shape)])
    found: dict[str, list[float]] = defaultdict(list)
    for table in range(tables):
        runs = make_runs(shape, agents, tasks, repeats, random)
        different = make_runs(shape, 2, tasks, repeats, random, 1.0)
        with tempfile.TemporaryDirectory() as below:
            of_table = figures(Tables(Path(below), on_disk=False), runs, different)
            if written and not table and figures(Tables(Path(below), on_disk=True), runs, different) != of_table:
                raise SystemExit(f"Figures of {agents} agents on {tasks} tasks differ between directories and memory.")
        for name, value in of_table:
            found[name].append(value)
    return found


def main() -> None:
    """Print a row for each cell of the grid, as Markdown, then where verdicts or intervals fall short."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])

    def numbers(text: str) -> list[int]:
        return [int(part) for part in text.split(",")]

    parser.add_argument("--agents", type=numbers, default=[2, 3, 8])
    parser.add_argument("--tasks", type=numbers, default=[1, 4, 16])
    parser.add_argument("--repeats", type=numbers, default=[2, 3, 5, 10])
    parser.add_argument("--shapes", type=lambda text: text.split(","), default=list(SHAPES))
    parser.add_argument("--tables", type=int, default=100, help="tables behind each figure of a row")
    parser.add_argument("--written", type=int, default=100, help="the most runs of a table that is written")
    options = parser.parse_args()
    columns = ["agents", "tasks", "repeats", "shape", *KINDS, "found", "forecast", *COVERED]
    print("|", " | ".join(columns), "|\n|" + "---|" * len(columns))
    short: dict[str, list[str]] = defaultdict(list)
    cells = [
        (agents, tasks, repeats, shape)
        for agents in options.agents
        for tasks in options.tasks
        for shape in options.shapes
        for repeats in options.repeats
    ]
    compared = 0
    for agents, tasks, repeats, shape in cells:
        written = agents * tasks * repeats <= options.written
        found = cell(agents, tasks, repeats, shape, options.tables, written=written)
        compared += written
        variances = [TaskVariances("", 1.0, 0.25, 0.0, 8.0, None)] * tasks
        forecast = find_power(1.0, variances, repeats, CASES)
        row = [share(found[name]) for name in (*KINDS, "found")]
        row.append(f"{100 * forecast:.0f}" if shape in {"normal", "skewed", "bimodal"} else "-")
        row += [share(found[name]) for name in COVERED]
        where = f"{agents} | {tasks} | {repeats} | {shape}"
        print(f"| {where} |", " | ".join(row), "|", flush=True)
        for name, (trials, limit) in {
            **{name: (found[name], ALLOWED) for name in KINDS},
            **{name: ([1 - held for held in found[name]], 1 - LEAST) for name in COVERED},
        }.items():
            if trials and np.mean(trials) - 2 * error_of(trials) > limit:
                short[name].append(f"({where}) {share(found[name])}")
    print(f"\nOf {compared} of {len(cells)} cells the first table was read from directories too: the same figures.")
    print("Beyond 5 % of false verdicts, or below 90 % of coverage, by two standard errors:")
    for name in (*KINDS, *COVERED):
        print(f"- {name}: {'; '.join(short[name]) or 'none'}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache  # what is found of made records is nobody's to keep
        main()
