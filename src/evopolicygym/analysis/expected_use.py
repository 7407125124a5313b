"""What a run that is yet to be played will use: hours, tokens and money, from runs that were played.

Runs of the same agent on the same task count; where there are none, runs of other agents on the task, else runs of the
agent on other tasks. A played run is scaled to the planned one's budget and numbers of hidden cases, and a run of
another task to the seconds that an episode takes there.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean, median

from evopolicygym.analysis.ranking.bootstrap import t_quantile
from evopolicygym.core.agent import INSPECT, OUTSIDE
from evopolicygym.records.rows import RunRow

COVERAGE = 0.9
"""The share of runs that are to lie within the range."""
PRIOR_RUNS = 4.0
"""For how many runs the usual spread of a basis counts beside the spread that is seen."""
OTHER_MACHINE = 0.4
"""What runs that were played elsewhere add to the spread of times; natural logarithm, assumed."""
FIXED_S = 0.03
"""Seconds of an episode beside its steps: its process, its files, its share of a submission."""
NO_MODEL = "the agent asks no model"


class Basis(StrEnum):
    """Which runs an estimate stands on."""

    SAME = "same agent, same task"
    TASK = "same task, other agents"
    AGENT = "same agent, other tasks"


SPREADS = {Basis.SAME: 0.35, Basis.TASK: 0.8, Basis.AGENT: 0.9}
"""The usual standard deviation of the logarithm of a run's use about its estimate, by basis: about that of shipped runs
(``benchmarks/expected_use.py``)."""


@dataclass(frozen=True, slots=True)
class PlannedUse:
    """What is known of a run before it is played."""

    task: str
    agent: str
    model: str
    effort: str
    budget: int
    validation_cases: int
    held_out_cases: int
    fewest_submissions: int = 1
    most_submissions: int = 1024
    asks_model: bool = False
    """Whether its agent asks a model; otherwise it uses no tokens and no money."""
    max_cost: float | None = None
    max_tokens: int | None = None

    def is_by_agent_of(self, run: RunRow) -> bool:
        """Return whether a run was played by the same agent with the same model."""
        return (self.agent, self.model, self.effort) == (run.agent_kind, run.model or "", run.effort or "")


@dataclass(frozen=True, slots=True)
class UseRange:
    """An amount that is expected, and the range in which 90 % of runs are expected to be."""

    low: float
    expected: float
    high: float
    basis: str
    runs: int
    """How many runs it stands on."""

    @property
    def ends(self) -> tuple[float, float, float]:
        """The low end, what is expected, and the high end."""
        return self.low, self.expected, self.high

    @property
    def document(self) -> dict[str, float | str | int]:
        """The same as JSON has it."""
        amounts = {"low": self.low, "expected": self.expected, "high": self.high}
        return {**amounts, "basis": self.basis, "runs": self.runs}

    def at_most(self, limit: float | None) -> "UseRange":
        """Return it cut at a limit, at which the run is ended."""
        return self if limit is None else self.with_ends([min(end, limit) for end in self.ends])

    def with_ends(self, ends: Sequence[float]) -> "UseRange":
        """Return another low end, expected value and high end, on the same basis."""
        low, expected, high = ends
        return UseRange(low, expected, high, self.basis, self.runs)


@dataclass(frozen=True, slots=True)
class ExpectedUse:
    """What a run is expected to use; an amount is None where no run that was played tells it."""

    seconds: UseRange | None
    """Wall time, hidden episodes included."""
    agent_seconds: UseRange | None
    """The part of it in which the agent plays, which ``max_time`` limits."""
    tokens: UseRange | None
    cost: UseRange | None
    """US dollars."""


@dataclass(frozen=True, slots=True)
class PlayedRuns:
    """The runs that estimates stand on: the user's own, and those that ship."""

    own: tuple[RunRow, ...] = ()
    shipped: tuple[RunRow, ...] = ()
    episode_seconds: Callable[[str], float | None] = lambda _: None
    """Returns the seconds of a task's episode of random play on one core; None where they are unknown."""

    def estimate(self, planned: PlannedUse) -> ExpectedUse:
        """Return what a planned run is expected to use, without regard to its limits."""
        candidates = self._candidates(planned)

        def agent_seconds(run: RunRow) -> float | None:
            if not run.spent:
                return None
            of_agent = run.turn_seconds * planned.budget / run.spent
            if not planned.asks_model:
                return of_agent * self._episode_ratio(planned, run)
            here, there = self._episode_s(planned, run)
            return planned.budget * (max(0.0, run.turn_seconds / run.spent - there) + here)

        def seconds(run: RunRow) -> float | None:
            hidden = candidates * planned.validation_cases + planned.held_out_cases
            of_agent = agent_seconds(run)
            if of_agent is None or not run.wall_seconds:
                return None
            of_hidden = max(0.0, run.wall_seconds - run.turn_seconds) * hidden / _hidden_episodes(run)
            return of_agent + of_hidden * self._episode_ratio(planned, run)

        def tokens(run: RunRow) -> float | None:
            return run.tokens * planned.budget / run.spent if run.tokens and run.spent else None

        def cost(run: RunRow) -> float | None:
            return run.cost_usd * planned.budget / run.spent if run.cost_usd and run.spent else None

        nothing = UseRange(0.0, 0.0, 0.0, NO_MODEL, 0)
        return ExpectedUse(
            self._range(planned, seconds, OTHER_MACHINE),
            self._range(planned, agent_seconds, OTHER_MACHINE),
            self._range(planned, tokens) if planned.asks_model else nothing,
            self._range(planned, cost) if planned.asks_model else nothing,
        )

    def _episode_ratio(self, planned: PlannedUse, run: RunRow) -> float:
        """Return how many times as long an episode of a planned run takes as one of a played run."""
        here, there = self._episode_s(planned, run)
        return (here + FIXED_S) / (there + FIXED_S)

    def _episode_s(self, planned: PlannedUse, run: RunRow) -> tuple[float, float]:
        """Return the seconds of an episode of a planned and of a played run; zeros where they say nothing."""
        if planned.task == run.task:
            return 0.0, 0.0
        here, there = self.episode_seconds(planned.task), self.episode_seconds(run.task)
        return (0.0, 0.0) if here is None or there is None else (here, there)

    def _range(
        self, planned: PlannedUse, amount: Callable[[RunRow], float | None], elsewhere: float = 0.0
    ) -> UseRange | None:
        """Return the range of an amount; None where no run tells it."""
        for basis in Basis:
            for runs, more in ((self.own, 0.0), (self.shipped, elsewhere)):
                amounts = [amount(run) for run in runs if _counts(run, planned, basis)]
                if logs := [math.log(value) for value in amounts if value]:
                    source = basis.value if runs is self.own else f"{basis.value} (shipped runs)"
                    return _range_of(logs, math.hypot(SPREADS[basis], more), source)
        return None

    def _candidates(self, planned: PlannedUse) -> float:
        """Return how many checkpoints the run will play on validation cases, by how many its agent had before."""
        runs = [run for run in (*self.own, *self.shipped) if run.spent]
        by_agent = [run for run in runs if planned.is_by_agent_of(run)]
        shares = [_candidates_of(run) / run.spent for run in by_agent or runs if run.spent > 1 or by_agent]
        expected = median(shares) * planned.budget if shares else planned.budget / 8
        return min(max(expected, planned.fewest_submissions), planned.most_submissions, planned.budget)


def _counts(run: RunRow, planned: PlannedUse, basis: Basis) -> bool:
    """Return whether a run is of a basis; runs whose agents ask a model tell nothing of those that ask none."""
    same_agent, same_task = planned.is_by_agent_of(run), run.task == planned.task
    match basis:
        case Basis.SAME:
            return same_agent and same_task
        case Basis.TASK:
            return same_task and not same_agent and _asks_model(run) is planned.asks_model
        case Basis.AGENT:
            return same_agent and not same_task


def _asks_model(run: RunRow) -> bool:
    """Return whether a run's agent asks a model, as far as its record tells; agents from outside are taken to."""
    return bool(run.tokens) or run.agent_kind in {OUTSIDE, INSPECT}


def _range_of(logs: Sequence[float], spread: float, source: str) -> UseRange:
    """Return the range of a further value, from the logarithms of some and the usual spread of such values."""
    count, centre = len(logs), fmean(logs)
    squares = sum((value - centre) ** 2 for value in logs)
    freedom = PRIOR_RUNS + count - 1
    deviation = math.sqrt((PRIOR_RUNS * spread**2 + squares) / freedom)
    half = t_quantile(freedom, COVERAGE) * deviation * math.sqrt(1 + 1 / count)
    return UseRange(math.exp(centre - half), math.exp(centre), math.exp(centre + half), source, count)


def _candidates_of(run: RunRow) -> int:
    return len(set(run.checkpoints)) or run.submissions


def _hidden_episodes(run: RunRow) -> int:
    return (
        _candidates_of(run) * (run.validation_cases or 0) + (len(run.held_out_returns) or run.held_out_cases or 0) or 1
    )


def add_ranges(ranges: Iterable[UseRange | None]) -> UseRange | None:
    """Return the sum of ranges; None if any is None.

    Ends are added, as if all ranges were off in the same direction. ``runs`` is the smallest number of runs behind any.
    """
    parts = list(ranges)
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    measured = [part for part in known if part.runs] or known
    bases = ", ".join(dict.fromkeys(part.basis for part in measured))
    low, expected, high = (
        (sum(ends) for ends in zip(*(part.ends for part in known), strict=True)) if known else (0.0,) * 3
    )
    return UseRange(low, expected, high, bases, min((part.runs for part in measured), default=0))
