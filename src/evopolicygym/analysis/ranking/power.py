"""How many repeats distinguish two agents whose means differ by a given amount, and what they take.

With R runs of each agent on the same C cases, the difference of their means has the variance 2 v / R + D / C, where
v = (variance between runs) + (variance of a run on a case) / C, and D is the variance over cases of the difference
between both agents' expected returns. The forecast is of the decision that ``compare`` makes (``ranking/decision.py``):
its half-width at a level is drawn through the estimated variances between runs, v times chi-squared over R - 1 degrees
of freedom for each agent, independent of the means (Cochran 1934). The power on a task is the mean of the normal tail
beyond the half-width over strata of both (Cohen 1988, chapter 2, does the same for one known number of degrees of
freedom), and 0 at a level below that of the smallest p-value that R repeats can have. Over several tasks, the mean and
variance of each task's deviate follow from these tails at a grid of levels, and their sum is taken as normal.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import NormalDist, fmean

import numpy as np

from evopolicygym.analysis.money import mean_cost
from evopolicygym.analysis.published.score_tables import shipped
from evopolicygym.analysis.ranking.bootstrap import Floats, t_quantile
from evopolicygym.analysis.ranking.decision import LEVEL, deviate, separation_chance, two_sided
from evopolicygym.analysis.ranking.known_scale import KnownScores, known_scale
from evopolicygym.analysis.ranking.noise import SHIPPED, NoiseFloor, noise_floor, repeated_samples
from evopolicygym.core.check_result import ProgressTracker, no_progress
from evopolicygym.records.rows import RunRow

FEWEST, MOST = 2, 100
"""Repeats: a verdict takes two of each agent; more than 100 are not searched."""
CASES = (8, 16, 32, 64, 128)
"""Held-out cases for which repeats are shown beside each other."""
STRATA = 24
"""Strata of the distribution of an estimated variance; each has the same probability."""
EVIDENCE = np.linspace(0.0, 6.0, 19)
"""Values of a task's deviate at which probabilities are computed."""
SURE = 0.8
"""The probability of the range of repeats that the accuracy of the variance leaves."""


@dataclass(frozen=True, slots=True)
class RunNeeds:
    """The episodes, hours and dollars of a run, on average."""

    train_episodes: float
    validation_episodes: float
    hours: float
    cost: float | None
    """Dollars."""
    runs: int
    """Runs that these are means of."""


@dataclass(frozen=True, slots=True)
class TaskVariances:
    """The variances of returns on a task, and what a run of it takes."""

    task: str
    between: float
    """The variance between an agent's runs, without that of their cases."""
    rest: float
    """The variance of a run on a case."""
    interaction: float
    """The variance over cases of the difference between two agents' expected returns; 0 if unknown."""
    freedom: float
    """Degrees of freedom of the variance between runs."""
    scale: float | None
    """Returns from the better of random and idle play to the best known score; None if unknown."""
    needs: RunNeeds | None = None

    @property
    def is_known(self) -> bool:
        """Whether an agent's runs differed; if not, nothing is known of agents whose runs do."""
        return self.between + self.rest > 0

    def of_runs(self, cases: int) -> float:
        """Return the variance between the means of runs over so many cases."""
        return self.between + self.rest / cases


@dataclass(frozen=True, slots=True)
class TaskForecast:
    """The repeats that distinguish two agents on a task, or over all tasks, and what they take."""

    task: str
    difference: float | None
    """In returns, or in normalised scores over all tasks; None if the task has no scale."""
    repeats: int | None
    """Of each agent; None if more than ``MOST`` don't suffice, or the forecast is unknown."""
    power: float | None
    """The probability that the difference is found with these repeats."""
    range: tuple[int, int | None] | None
    """The repeats at both ends of the variance's 80 % interval; None at the end for more than ``MOST``."""
    least: float | None
    """The difference that these repeats find with the power asked for; None if there is none."""
    by_cases: Mapping[int, int | None]
    """Repeats by the number of held-out cases."""
    episodes: float | None
    """Played in all runs of both agents: train, validation and held-out."""
    hours: float | None
    """Of all runs, in sequence."""
    cost: float | None
    """Dollars, of all runs."""
    standard_deviation: float | None = None
    """Between an agent's runs; None if it is unknown."""

    @property
    def is_known(self) -> bool:
        """Whether there is a forecast: the difference and the variance are known."""
        return self.difference is not None and self.standard_deviation is not None


@dataclass(frozen=True, slots=True)
class Plan:
    """The comparison that a forecast is for."""

    difference: float
    is_normalised: bool = True
    power: float = 0.8
    cases: int = 32
    repeats: int | None = None
    """Repeats whose power is asked for; None if they are."""


def find_power(
    difference: float, variances: Sequence[TaskVariances], repeats: int, cases: int, level: float = LEVEL
) -> float:
    """Return the probability that a difference is named with so many repeats of each agent, in its direction.

    With one task this is the verdict of ``compare`` on it at a level that Holm's procedure divides by the number of
    tasks. With several it is that over all tasks, on each of which the agents differ by the same amount in the unit of
    the variances.
    """
    if len(variances) > 1:
        return _find_joint_power(difference, variances, repeats, cases, level)
    if separation_chance(repeats, repeats) >= level:
        return 0.0
    above, _ = _tails(difference, variances[0], repeats, cases, (level,))
    return float(above[0])


def _find_joint_power(
    difference: float, variances: Sequence[TaskVariances], repeats: int, cases: int, level: float
) -> float:
    """Return the probability that ``decide_jointly`` names a difference, its evidence taken as normal."""
    most = deviate(separation_chance(repeats, repeats))
    ends = np.minimum(EVIDENCE, most)
    widths, middles = np.diff(ends), (ends[1:] + ends[:-1]) / 2
    levels = tuple(two_sided(middle) for middle in ((EVIDENCE[1:] + EVIDENCE[:-1]) / 2)[widths > 0].tolist())
    widths, middles = widths[widths > 0], middles[widths > 0]
    mean, variance = 0.0, 0.0
    for above, below in (_tails(difference, task, repeats, cases, levels) for task in variances):
        of_task = float((widths * (above - below)).sum())
        squares = 2 * float((widths * middles * (above + below)).sum())
        mean, variance = mean + of_task, variance + squares - of_task**2
    if not variance > 0:
        return 0.0
    return 1 - NormalDist(mean, math.sqrt(variance)).cdf(deviate(level) * math.sqrt(len(variances)))


def _tails(
    difference: float, task: TaskVariances, repeats: int, cases: int, levels: tuple[float, ...]
) -> tuple[Floats, Floats]:
    """Return the probabilities that an estimated difference is beyond the half-width of each level, on both sides.

    Where runs don't vary, no p-value is known.
    """
    of_runs, of_cases = task.of_runs(cases) / repeats, task.interaction / cases
    if not of_runs > 0:
        return np.zeros(len(levels)), np.zeros(len(levels))
    reach, deviation = _reaches(of_runs, of_cases, repeats, cases, levels), math.sqrt(2 * of_runs + of_cases)
    above, below = (_normal_cdf((sign * difference - reach) / deviation).mean(axis=1) for sign in (1, -1))
    return above, below


@lru_cache(1024)
def _reaches(of_runs: float, of_cases: float, repeats: int, cases: int, levels: tuple[float, ...]) -> Floats:
    """Return half-widths, shaped (levels, strata), by the strata of both agents' estimated variances."""
    strata = chi_squared(repeats - 1)
    if len(levels) > 1:  # half as many are fine enough for a sum over levels
        strata = strata.reshape(-1, 2).mean(axis=1)
    first, second = (of_runs * each.ravel() for each in np.meshgrid(strata, strata))
    upper = first <= second  # both sides of the diagonal are the same
    first, second = first[upper], second[upper]
    parts, freedoms = [first, second, np.full_like(first, of_cases)], [repeats - 1.0, repeats - 1.0, cases - 1.0]
    reach = np.array([_half_widths(parts, freedoms, level) for level in levels])
    return np.concatenate([reach, reach[:, first < second]], axis=1)


_CDF = np.array([NormalDist().cdf(at) for at in np.linspace(-8, 8, 4_001)])


def _normal_cdf(values: Floats) -> Floats:
    return np.asarray(np.interp(values, np.linspace(-8, 8, 4_001), _CDF))


def _half_widths(variances: Sequence[Floats], freedoms: Sequence[float], level: float) -> Floats:
    """Return the half-widths of ``bootstrap.half_width`` for arrays of estimated variances."""
    total = np.sum(variances, axis=0)
    weights = np.sum([part**2 / freedom for part, freedom in zip(variances, freedoms, strict=True)], axis=0)
    joint = np.divide(total**2, weights, out=np.full_like(total, np.inf), where=weights > 0)
    squares = [
        part * _quantiles(np.array(freedom), level) ** 2 for part, freedom in zip(variances, freedoms, strict=True)
    ]
    return np.asarray((_quantiles(joint, level) * np.sqrt(total) + np.sqrt(np.sum(squares, axis=0))) / 2)


def _quantiles(freedoms: Floats, level: float) -> Floats:
    """Return Student's quantiles of two-sided levels, interpolated over the inverse degrees of freedom."""
    inverse, known = _quantile_curve(level)
    return np.asarray(np.exp(np.interp(1 / np.maximum(freedoms, 1.0), inverse, known)))


@lru_cache(256)
def _quantile_curve(level: float) -> tuple[Floats, Floats]:
    inverse = np.linspace(0.0, 1.0, 101)
    quantiles = [t_quantile(1 / part if part else math.inf, 1 - level) for part in inverse.tolist()]
    return inverse, np.log(quantiles)


@lru_cache(256)
def chi_squared(freedom: int) -> Floats:
    """Return the means of equally probable strata of chi-squared over its degrees of freedom; their mean is 1."""
    degrees = max(freedom, 1)
    values = np.exp(np.linspace(math.log(1e-9), math.log(40.0), 20_001))
    logs = degrees / 2 * (np.log(values) - values)  # the density of chi-squared / degrees, by its logarithm
    below = np.cumsum(np.exp(logs - logs.max()))
    quantiles = np.interp((np.arange(STRATA) + 0.5) / STRATA, below / below[-1], values)
    return np.asarray(quantiles / quantiles.mean())


def chi_squared_quantile(freedom: float, share: float) -> float:
    """Return a quantile of chi-squared over its degrees of freedom, after Wilson and Hilferty (1931)."""
    deviation = 2 / (9 * freedom)
    return max(1e-6, 1 - deviation + NormalDist().inv_cdf(share) * math.sqrt(deviation)) ** 3


def repeats_to_find(
    difference: float, variances: Sequence[TaskVariances], power: float, cases: int, level: float = LEVEL
) -> int | None:
    """Return the fewest repeats of each agent that find a difference with a power; None beyond ``MOST``."""
    if find_power(difference, variances, MOST, cases, level) < power:
        return None
    low, high = FEWEST - 1, MOST
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (
            (low, middle) if find_power(difference, variances, middle, cases, level) >= power else (middle, high)
        )
    return high


def least_difference(
    variances: Sequence[TaskVariances], power: float, repeats: int, cases: int, level: float = LEVEL
) -> float | None:
    """Return the smallest difference that so many repeats find with a power; None if they find none."""
    total = sum(2 * task.of_runs(cases) / repeats + task.interaction / cases for task in variances)
    low, high = 0.0, 100 * math.sqrt(total)
    if find_power(high, variances, repeats, cases, level) < power:
        return None
    for _ in range(18):
        middle = (low + high) / 2
        low, high = (low, middle) if find_power(middle, variances, repeats, cases, level) >= power else (middle, high)
    return high


def forecast(plan: Plan, tasks: Sequence[TaskVariances], follow: ProgressTracker = no_progress) -> list[TaskForecast]:
    """Return the forecast of each task, and with several the one over all of them that have a scale.

    A task's level is 0.05 over the number of tasks: the first step of Holm's (1979) procedure. ``follow`` wraps the
    loop over tasks, to show progress.
    """
    forecasts = [_forecast_task(plan, task, LEVEL / len(tasks)) for task in follow("forecasting", tasks)]
    scaled = [task for task in tasks if task.scale is not None and task.is_known]
    if plan.is_normalised and len(scaled) > 1:
        forecasts.append(_forecast_jointly(plan, scaled))
    return forecasts


def _forecast_task(plan: Plan, task: TaskVariances, level: float) -> TaskForecast:
    difference = plan.difference if not plan.is_normalised else task.scale and plan.difference * task.scale
    return _forecast(plan, task.task, difference, [task], level)


def _forecast_jointly(plan: Plan, tasks: Sequence[TaskVariances]) -> TaskForecast:
    return _forecast(
        plan, f"all {len(tasks)} tasks together", plan.difference, [_normalise(task) for task in tasks], LEVEL
    )


def _normalise(task: TaskVariances) -> TaskVariances:
    """Return a task's variances in units of its scale."""
    unit = (task.scale or 1.0) ** 2
    return replace(_multiply(task, 1 / unit), interaction=task.interaction / unit, scale=1.0)


def _forecast(
    plan: Plan, name: str, difference: float | None, tasks: Sequence[TaskVariances], level: float
) -> TaskForecast:
    known = all(task.is_known for task in tasks)
    deviation = math.sqrt(sum(task.of_runs(plan.cases) for task in tasks)) / len(tasks) if known else None
    if difference is None or not known:
        return TaskForecast(name, difference, None, None, None, None, {}, None, None, None, deviation)
    needed = plan.repeats or repeats_to_find(difference, tasks, plan.power, plan.cases, level)
    totals = _totals(tasks, needed, plan.cases)
    return TaskForecast(
        name, difference, needed,
        power=needed and find_power(difference, tasks, needed, plan.cases, level),
        range=None if plan.repeats else _range(difference, tasks, plan, level),
        least=needed and least_difference(tasks, plan.power, needed, plan.cases, level),
        by_cases={cases: repeats_to_find(difference, tasks, plan.power, cases, level) for cases in CASES},
        episodes=totals[0], hours=totals[1], cost=totals[2], standard_deviation=deviation,
    )  # fmt: skip


def _range(
    difference: float, tasks: Sequence[TaskVariances], plan: Plan, level: float
) -> tuple[int, int | None] | None:
    """Return the repeats if the variances between runs were at the ends of their 80 % interval."""
    parts = [task.of_runs(plan.cases) for task in tasks]
    weights = sum(part**2 / task.freedom for part, task in zip(parts, tasks, strict=True) if task.freedom > 0)
    if not weights > 0:
        return None
    freedom = sum(parts) ** 2 / weights
    low, high = (
        repeats_to_find(difference, [_multiply(task, factor) for task in tasks], plan.power, plan.cases, level)
        for factor in (1 / chi_squared_quantile(freedom, share) for share in ((1 + SURE) / 2, (1 - SURE) / 2))
    )
    return None if low is None else (low, high)


def _multiply(task: TaskVariances, factor: float) -> TaskVariances:
    """Return a task whose variances between runs and of a run on a case are multiplied."""
    return replace(task, between=factor * task.between, rest=factor * task.rest)


def _totals(
    tasks: Sequence[TaskVariances], repeats: int | None, cases: int
) -> tuple[float | None, float | None, float | None]:
    """Return the episodes, hours and dollars of all runs of both agents."""
    needs = [task.needs for task in tasks if task.needs is not None]
    if repeats is None or len(needs) < len(tasks):
        return None, None, None
    runs = 2 * repeats
    costs = [need.cost for need in needs if need.cost is not None]
    return (
        runs * sum(need.train_episodes + need.validation_episodes + cases for need in needs),
        runs * sum(need.hours for need in needs),
        runs * sum(costs) if len(costs) == len(needs) else None,
    )


def task_variances(runs: Sequence[RunRow], *, with_shipped: bool = True) -> list[TaskVariances]:
    """Return the variances of each task on which an agent has two runs, by runs and shipped runs of its environment.

    A run takes the mean of a task's given runs with a budget of two episodes or more, else of shipped ones.
    """
    shipped_runs = shipped(SHIPPED).runs if with_shipped else ()
    samples = repeated_samples(runs, with_shipped=with_shipped)
    floors = {task: noise_floor(of_task) for task, of_task in samples.items()}
    return [
        _task_variances(task, floor, _of_task(task, runs) or _of_task(task, shipped_runs))
        for task, floor in sorted(floors.items())
        if floor is not None
    ]


def _of_task(task: str, runs: Sequence[RunRow]) -> list[RunRow]:
    return [run for run in runs if run.task == task and run.budget > 1]


def _task_variances(task: str, floor: NoiseFloor, runs: Sequence[RunRow]) -> TaskVariances:
    parts, scale = floor.components if floor.pooled.variance > 0 else None, None
    if runs:
        anchors = KnownScores(runs[0].random_anchor, runs[0].idle_anchor, runs[0].reference_anchor)
        known = known_scale(task, runs[0].environment, anchors)
        scale = known.best - known.low if known else None
    return TaskVariances(
        task,
        between=parts.runs if parts else floor.pooled.variance,
        rest=parts.rest if parts else 0.0,
        interaction=0.0 if parts is None else floor.interaction if floor.interaction is not None else 2 * parts.cases,
        freedom=floor.pooled.freedom,
        scale=scale,
        needs=_needs(runs) if runs else None,
    )


def _needs(runs: Sequence[RunRow]) -> RunNeeds:
    """Return what runs took on average."""
    cost = mean_cost(runs)
    return RunNeeds(
        fmean(run.spent for run in runs),
        fmean((run.validation_cases or 0) * len(set(run.checkpoints)) for run in runs),
        fmean(run.wall_seconds for run in runs) / 3600,
        cost.value if cost else None,
        len(runs),
    )
