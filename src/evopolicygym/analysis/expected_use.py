"""What a run that is yet to be played will use: hours, tokens and money, from runs that were played.

Runs of the same agent on the same task count; where there are none, runs of other agents on the task, else runs of the
agent on other tasks. A played run is scaled to the planned one's budget and numbers of hidden cases, and a run of
another task to the seconds that an episode takes there. Without any, time is estimated from the task's episodes alone.

What is expected is the mean of the scaled runs, so that expectations add up: the money of a run is its expected tokens
by kind at its own price, and that of a suite the sum of its runs'.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from statistics import NormalDist, fmean, median
from typing import TypeVar

import numpy as np

from evopolicygym.analysis.ranking.bootstrap import Floats, t_quantile
from evopolicygym.core.agent import INSPECT, OUTSIDE, PriceSnapshot, TokenCounts
from evopolicygym.records.rows import RunRow

COVERAGE = 0.9
"""The share of runs that are to lie within the range."""
PRIOR_RUNS = 4.0
"""For how many runs the usual spread of a basis counts beside the spread that is seen."""
OTHER_MACHINE = 0.4
"""What runs that were played elsewhere add to the spread of times; natural logarithm, assumed."""
FIXED_S = 0.03
"""Seconds of an episode beside its steps: its process, its files, its share of a submission."""
EPISODES_FACTOR = 2.5
"""How many times as long shipped runs took, at the median, as their episodes would take on one core at random play
(``benchmarks/expected_use.py``)."""
Amount = TypeVar("Amount")
DRAWS = 4096
"""Draws from which the range of a sum is read."""
NO_MODEL = "the agent asks no model"
MACHINE = "machine"
"""What ranges share that stand on runs of another machine."""


class Basis(StrEnum):
    """What an estimate stands on."""

    SAME = "same agent, same task"
    TASK = "same task, other agents"
    AGENT = "same agent, other tasks"
    EPISODES = "the task's episodes alone"


SPREADS = {Basis.SAME: 0.35, Basis.TASK: 0.8, Basis.AGENT: 0.9, Basis.EPISODES: 0.8}
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
    is_metered: bool = False
    """Whether its model is asked through the model proxy."""
    price: PriceSnapshot | None = None
    """The price of its model; None if unknown."""

    def is_by_agent_of(self, run: RunRow) -> bool:
        """Return whether a run was played by the same agent with the same model."""
        return (self.agent, self.model, self.effort) == (run.agent_kind, run.model or "", run.effort or "")


@dataclass(frozen=True, slots=True)
class UseRange:
    """An amount that is expected, and the range in which 90 % of runs are expected to be."""

    low: float
    median: float
    """Half of the runs are expected to use less."""
    expected: float
    """The mean of many such runs; above the median, as a few runs use much more."""
    high: float
    basis: str
    runs: int
    """How many runs it stands on; 0 without any."""
    is_lower_bound: bool = False
    """Whether some of what it stands on is unknown and missing in it."""
    shared: Mapping[str, float] = field(default_factory=dict)
    """The shares of its variance that ranges with the same keys have in common: these are off together."""

    @property
    def amounts(self) -> tuple[float, float, float, float]:
        """The low end, the median, what is expected, and the high end."""
        return self.low, self.median, self.expected, self.high

    @property
    def document(self) -> dict[str, float | str | int]:
        """The same as JSON has it."""
        names = ("low", "median", "expected", "high", "basis", "runs", "is_lower_bound")
        return {name: getattr(self, name) for name in names}

    def at_most(self, limit: float | None) -> "UseRange":
        """Return it cut at a limit, at which the run is ended."""
        return self if limit is None else self.with_amounts([min(amount, limit) for amount in self.amounts])

    def with_amounts(self, amounts: Sequence[float]) -> "UseRange":
        """Return another low end, median, expected value and high end, on the same basis."""
        low, middle, expected, high = amounts
        return replace(self, low=low, median=middle, expected=expected, high=high)

    def quantiles(self, normal: Floats) -> Floats:
        """Return amounts at standard normal values: log-normal on each side of the median."""
        reach = NormalDist().inv_cdf((1 + COVERAGE) / 2)
        low, middle, high = (math.log(max(amount, TINY)) for amount in (self.low, self.median, self.high))
        slope = np.where(normal < 0, middle - low, high - middle) / reach
        return np.exp(middle + slope * normal)


TINY = 1e-12
"""What amounts of 0 count as, in logarithms."""
NOTHING = UseRange(0.0, 0.0, 0.0, 0.0, NO_MODEL, 0)


@dataclass(frozen=True, slots=True)
class ExpectedUse:
    """What a run is expected to use; an amount is None where nothing tells it."""

    seconds: UseRange | None
    """Wall time, hidden episodes included."""
    agent_seconds: UseRange | None
    """The part of it in which the agent plays, which ``max_time`` limits."""
    tokens: UseRange | None
    cost: UseRange | None
    """US dollars."""
    token_counts: TokenCounts | None = None
    """The expected tokens by kind, without regard to limits; None where unknown."""
    price: PriceSnapshot | None = None
    """The price at which they cost; None if unknown or without a model."""

    @property
    def lacks_price(self) -> bool:
        """Whether money is unknown because the model's price is."""
        return self.cost is None and self.price is None


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
        hidden = candidates * planned.validation_cases + planned.held_out_cases

        def agent_seconds(run: RunRow) -> float | None:
            if not run.spent:
                return None
            of_agent = run.turn_seconds * planned.budget / run.spent
            if not planned.asks_model:
                return of_agent * self._episode_ratio(planned, run) or None
            here, there = self._episode_s(planned, run)
            return planned.budget * (max(0.0, run.turn_seconds / run.spent - there) + here) or None

        def seconds(run: RunRow) -> float | None:
            of_agent = agent_seconds(run)
            if of_agent is None or not run.wall_seconds:
                return None
            of_hidden = max(0.0, run.wall_seconds - run.turn_seconds) * hidden / _hidden_episodes(run)
            return of_agent + of_hidden * self._episode_ratio(planned, run)

        of_time = (
            self._range(planned, seconds, OTHER_MACHINE) or self._range_of_episodes(planned, planned.budget + hidden),
            self._range(planned, agent_seconds, OTHER_MACHINE) or self._range_of_episodes(planned, planned.budget),
        )
        if not planned.asks_model:
            return ExpectedUse(*of_time, NOTHING, NOTHING, TokenCounts(0, 0))

        def tokens(run: RunRow) -> float | None:
            return run.tokens * planned.budget / run.spent if run.tokens and run.spent else None

        def cost(run: RunRow) -> float | None:
            return _cost(planned, run)

        counts = self._expected_tokens(planned)
        return ExpectedUse(*of_time, self._range(planned, tokens), self._range(planned, cost), counts, planned.price)

    def _expected_tokens(self, planned: PlannedUse) -> TokenCounts | None:
        """Return the mean tokens by kind of the runs that an estimate of money stands on; None without any."""
        _, _, amounts = self._sources(planned, lambda run: _scaled_tokens(planned, run))
        counts = [counts for _, counts in amounts]
        if not counts:
            return None
        return TokenCounts(
            *(
                fmean(getattr(each, kind) for each in counts)
                for kind in ("input", "output", "cached_input", "cache_write")
            )
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
        """Return the range of an amount; None where no run tells it. ``elsewhere`` is the spread of other machines."""
        basis, is_own, amounts = self._sources(planned, amount)
        if not amounts:
            return None
        known = _range_of([value for _, value in amounts], planned, basis, 0.0 if is_own else elsewhere)
        source = basis.value if is_own else f"{basis.value} (shipped runs)"
        bound = elsewhere == 0 and any(run.cost_is_lower_bound for run, _ in amounts)
        return replace(known, basis=source, is_lower_bound=bound)

    def _sources(
        self, planned: PlannedUse, amount: Callable[[RunRow], Amount | None]
    ) -> tuple[Basis, bool, Sequence[tuple[RunRow, Amount]]]:
        """Return the first basis with runs that tell an amount, whether they are the user's own, and their amounts."""
        for basis in (Basis.SAME, Basis.TASK, Basis.AGENT):
            for runs in (self.own, self.shipped):
                amounts = [(run, amount(run)) for run in runs if _counts(run, planned, basis)]
                if known := [(run, value) for run, value in amounts if value is not None]:
                    return basis, runs is self.own, known
        return Basis.EPISODES, False, ()

    def _range_of_episodes(self, planned: PlannedUse, episodes: float) -> UseRange | None:
        """Return the seconds of a number of the task's episodes; None where those of one are unknown."""
        episode_s = self.episode_seconds(planned.task)
        if episode_s is None:
            return None
        middle = episodes * (episode_s + FIXED_S) * EPISODES_FACTOR
        deviation = math.hypot(SPREADS[Basis.EPISODES], OTHER_MACHINE)
        spread = math.exp(NormalDist().inv_cdf((1 + COVERAGE) / 2) * deviation)
        expected = middle * math.exp(deviation**2 / 2)
        basis = f"{Basis.EPISODES.value}, without the time of its model" if planned.asks_model else Basis.EPISODES.value
        return UseRange(
            middle / spread,
            middle,
            expected,
            middle * spread,
            basis,
            0,
            planned.asks_model,
            {Basis.EPISODES.value: 1.0},
        )

    def _candidates(self, planned: PlannedUse) -> float:
        """Return how many checkpoints the run will play on validation cases, by how many its agent had before."""
        runs = [run for run in (*self.own, *self.shipped) if run.spent]
        by_agent = [run for run in runs if planned.is_by_agent_of(run)]
        shares = [_candidates_of(run) / run.spent for run in by_agent or runs if run.spent > 1 or by_agent]
        expected = median(shares) * planned.budget if shares else planned.budget / 8
        return min(max(expected, planned.fewest_submissions), planned.most_submissions, planned.budget)


def _scaled_tokens(planned: PlannedUse, run: RunRow) -> TokenCounts | None:
    return run.token_counts.scaled(planned.budget / run.spent) if run.token_counts and run.spent else None


def _cost(planned: PlannedUse, run: RunRow) -> float | None:
    """Return what a played run's tokens, scaled to a planned run, cost at the planned run's price.

    Where no proxy counts tokens and no price is known, the agent's own tool may have told what the same model cost.
    """
    if planned.price is None:
        is_by_tool = not planned.is_metered and planned.is_by_agent_of(run) and run.price is None
        if not is_by_tool or run.cost_usd is None or not run.spent:
            return None
        return run.cost_usd * planned.budget / run.spent
    if run.token_counts is None or not run.spent:
        return None
    return planned.price.cost_of_requests(run.token_counts, run.requests or 1) * planned.budget / run.spent


def _counts(run: RunRow, planned: PlannedUse, basis: Basis) -> bool:
    """Return whether a run is of a basis; runs whose agents ask a model tell nothing of those that ask none."""
    same_agent, same_task = planned.is_by_agent_of(run), run.task == planned.task
    match basis:
        case Basis.SAME:
            return same_agent and same_task
        case Basis.TASK:
            return same_task and not same_agent and _asks_model(run) is planned.asks_model
        case _:
            return same_agent and not same_task


def _asks_model(run: RunRow) -> bool:
    """Return whether a run's agent asks a model, as far as its record tells; agents from outside are taken to."""
    return bool(run.tokens) or run.agent_kind in {OUTSIDE, INSPECT}


def _range_of(amounts: Sequence[float], planned: PlannedUse, basis: Basis, elsewhere: float) -> UseRange:
    """Return the range of a further amount from some, the usual spread on their basis and that of other machines.

    What is expected is the amounts' mean: unbiased, whatever their distribution.
    """
    logs = [math.log(amount) for amount in amounts if amount > 0]
    count = len(logs)
    if not logs:  # all are free
        return UseRange(0.0, 0.0, 0.0, 0.0, "", len(amounts))
    centre = fmean(logs)
    squares = sum((value - centre) ** 2 for value in logs)
    freedom = PRIOR_RUNS + count - 1
    variance = (PRIOR_RUNS * SPREADS[basis] ** 2 + squares) / freedom
    whole = variance * (1 + 1 / count) + elsewhere**2
    half = t_quantile(freedom, COVERAGE) * math.sqrt(whole)
    low, middle, high = (math.exp(centre + side * half) for side in (-1, 0, 1))
    of_basis = variance * (1 + 1 / count) * _shared_by(basis, count) / whole
    shared = {_shared_key(planned, basis): of_basis, MACHINE: elsewhere**2 / whole}
    return UseRange(low, middle, fmean(amounts), high, "", len(amounts), shared=shared)


def _shared_by(basis: Basis, count: int) -> float:
    """Return the share of a range's variance, machines aside, by which runs of one estimate are off together.

    On the same agent and task that is the error of the mean of the runs; else what the basis adds to their spread.
    """
    if basis is Basis.SAME:
        return 1 / (1 + count)
    return 1 - (SPREADS[Basis.SAME] / SPREADS[basis]) ** 2


def _shared_key(planned: PlannedUse, basis: Basis) -> str:
    """Return what runs have in common whose estimates are off together: other agents' runs tell nothing of this one."""
    agent = f"{planned.agent}\0{planned.model}\0{planned.effort}"
    return agent if basis is Basis.TASK else f"{agent}\0{planned.task}"


def _candidates_of(run: RunRow) -> int:
    return len(set(run.checkpoints)) or run.submissions


def _hidden_episodes(run: RunRow) -> int:
    return (
        _candidates_of(run) * (run.validation_cases or 0) + (len(run.held_out_returns) or run.held_out_cases or 0) or 1
    )


def add_ranges(ranges: Iterable[UseRange | None]) -> UseRange | None:
    """Return the sum of ranges; None if any is None.

    Its range is drawn: what ranges share is off in the same direction, the rest independently. ``runs`` is the smallest
    number of runs behind any.
    """
    parts = list(ranges)
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    if sum(part.high > part.low for part in known) > 1:
        low, middle, high = _ends_of_sum(known)
    else:  # nothing can cancel out
        low, middle, high = (math.fsum(getattr(part, end) for part in known) for end in ("low", "median", "high"))
    measured = [part for part in known if part.high] or known
    return UseRange(
        low,
        middle,
        math.fsum(part.expected for part in known),
        high,
        ", ".join(dict.fromkeys(part.basis for part in measured)),
        min((part.runs for part in measured), default=0),
        any(part.is_lower_bound for part in known),
    )


def _ends_of_sum(parts: Sequence[UseRange]) -> tuple[float, float, float]:
    """Return the low end, the median and the high end of a sum, from draws that are the same each time."""
    random = np.random.default_rng(0)
    common: dict[str, Floats] = defaultdict(lambda: random.standard_normal(DRAWS))
    total = np.zeros(DRAWS)
    for part in parts:
        own = max(0.0, 1 - sum(part.shared.values()))
        normal = math.sqrt(own) * random.standard_normal(DRAWS)
        for key, share in part.shared.items():
            normal += math.sqrt(share) * common[key]
        total += part.quantiles(normal)
    low, middle, high = np.quantile(total, [(1 - COVERAGE) / 2, 0.5, (1 + COVERAGE) / 2]).tolist()
    return low, middle, high
