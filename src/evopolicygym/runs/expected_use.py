"""What a run or a suite is expected to use before it is played, and the refusal of suites that are over a limit."""

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from evopolicygym.agents.base import model_address
from evopolicygym.analysis.expected_use import ExpectedUse, PlannedUse, PlayedRuns, UseRange, add_ranges
from evopolicygym.analysis.published.score_tables import shipped
from evopolicygym.analysis.results import load_results
from evopolicygym.core.errors import UsageError
from evopolicygym.core.options import LOCAL
from evopolicygym.core.text import duration
from evopolicygym.records.rows import RunRow
from evopolicygym.runs.config import RunConfig
from evopolicygym.runs.preflight import known_price
from evopolicygym.runs.suites.document import directory_of
from evopolicygym.runs.suites.play import default_jobs
from evopolicygym.runs.suites.records import PlannedRunVerdict, find_results
from evopolicygym.runs.suites.schedule import episode_seconds
from evopolicygym.runs.suites.suite import PlannedRun, SuiteConfig

SHIPPED = ("baselines", "references")
LIMITS = ("max_cost", "max_time")


def load_played_runs(directory: Path) -> PlayedRuns:
    """Return the runs that estimates stand on: those below a directory, if there are any, and those that ship."""
    own: tuple[RunRow, ...] = ()
    with suppress(UsageError):  # there may be none
        own = load_results([directory]).runs
    own = tuple(run for run in own if not run.is_release)
    return PlayedRuns(own, tuple(run for name in SHIPPED for run in shipped(name).runs), episode_seconds)


def estimate_run(config: RunConfig, played: PlayedRuns) -> ExpectedUse:
    """Return what a run is expected to use, with its own limits in force."""
    return _limited(config, played.estimate(plan_use(config)))


def plan_use(config: RunConfig) -> PlannedUse:
    """Return what an estimate needs to know of a run."""
    task, agent = config.task, config.agent
    budget, url = task.budget, model_address(agent)
    fewest, most = -(-budget.episodes // budget.most), budget.episodes // budget.min_per_submission
    return PlannedUse(
        task.environment.name,
        agent.name,
        agent.model,
        agent.effort,
        budget.episodes,
        task.validation_cases,
        task.held_out_cases,
        min(fewest, budget.max_submissions or fewest),
        min(most, budget.max_submissions or most),
        asks_model=bool(agent.model or url),
        is_metered=bool(url),
        price=known_price(config, url),
    )


def _limited(config: RunConfig, use: ExpectedUse) -> ExpectedUse:
    """Return what a run is expected to use, which is ended where a limit is reached."""
    allowance, seconds, of_agent = config.agent.allowance, use.seconds, use.agent_seconds
    if seconds and of_agent and (limit := allowance.seconds) is not None:
        over = [max(0.0, amount - limit) for amount in of_agent.amounts]
        amounts = zip(seconds.amounts, over, strict=True)
        seconds = seconds.with_amounts([max(0.0, amount - more) for amount, more in amounts])
    return replace(
        use,
        seconds=seconds,
        agent_seconds=of_agent and of_agent.at_most(allowance.seconds),
        tokens=use.tokens and use.tokens.at_most(allowance.tokens),
        cost=use.cost and use.cost.at_most(allowance.cost),
    )


@dataclass(frozen=True, slots=True)
class SuiteUse:
    """What the runs of a suite that are not finished are expected to use."""

    runs: tuple[tuple[PlannedRun, ExpectedUse], ...]
    """With the limits of each in force."""
    jobs: int
    """How many are played at once."""

    @property
    def seconds(self) -> UseRange | None:
        """Wall time of all runs, so many at once; at least that of the longest."""
        times = [use.seconds for _, use in self.runs]
        whole = add_ranges(times)
        if whole is None:
            return None
        longest = [max(ends) for ends in zip(*(time.amounts for time in times if time), strict=True)] or [0.0] * 4
        amounts = zip(whole.amounts, longest, strict=True)
        return whole.with_amounts([max(amount / self.jobs, most) for amount, most in amounts])

    @property
    def tokens(self) -> UseRange | None:
        """Of all runs together."""
        return add_ranges(use.tokens for _, use in self.runs)

    @property
    def cost(self) -> UseRange | None:
        """Of all runs together, in US dollars."""
        return add_ranges(use.cost for _, use in self.runs)


def estimate_suite(config: SuiteConfig, planned: Sequence[PlannedRun], played: PlayedRuns) -> SuiteUse:
    """Return what a prepared suite is expected to use from here on."""
    waiting = _waiting(config, planned)
    cores = len(os.sched_getaffinity(0)) if config.common["executor"] == LOCAL else 1
    jobs = max(1, min(config.jobs or default_jobs(cores), len(waiting)))
    return SuiteUse(tuple((run, estimate_run(run.config, played)) for run in waiting), jobs)


def refuse_over_limits(
    config: SuiteConfig,
    planned: Sequence[PlannedRun],
    total_cost: float | None = None,
    total_seconds: float | None = None,
) -> None:
    """Raise ``UsageError`` where a suite is expected to use more than its user allows, before anything is played.

    ``total_cost`` (US dollars) and ``total_seconds`` (wall time) are of the whole suite, and compared with what is
    expected. A run's own limit of cost or time is compared with the low end of the run's range, where runs tell it,
    unless it is crossed: then a run would almost surely be ended by it.
    """
    limits = [name for name in LIMITS if _is_set(config, name)]
    if total_cost is None and total_seconds is None and not limits:
        return
    played = load_played_runs(Path(config.common["runs"]))
    for run in _waiting(config, planned) if limits else ():
        _refuse_run(run, played.estimate(plan_use(run.config)), limits)
    use = estimate_suite(config, planned, played)
    for amount, limit, shown, option in (
        (use.cost, total_cost, _dollars, "--total-cost"),
        (use.seconds, total_seconds, duration, "--total-time"),
    ):
        if limit is None:
            continue
        if amount is not None and amount.expected > limit:
            raise UsageError(
                f"The suite is expected to use {_range_text(amount, shown)} for {len(use.runs)} runs, which is over "
                f"{shown(limit)} ({option}). Nothing was played. Raise the limit, or play a part: fewer --environment, "
                f"--agent or --repeats."
            )
        if amount is None or (amount.is_lower_bound and not amount.runs):
            raise UsageError(f"The suite can't be held to {shown(limit)} ({option}): {_why_unknown(use, option)}")


def _why_unknown(use: SuiteUse, option: str) -> str:
    """Return why a total is unknown, and what helps."""
    unpriced = {run.config.agent.model: None for run, each in use.runs if each.lacks_price}
    if option == "--total-cost" and unpriced:
        return (
            f"the price of {', '.join(unpriced)} is not known. Give it in the suite's file, in USD for a million "
            f"tokens: price = {{ input = 1.25, cached_input = 0.125, output = 10 }}."
        )
    return (
        "its use is unknown, as no run of this agent or task was played yet. Play one first, such as with "
        "--environment NAME --repeats 1, or leave the limit out."
    )


def _refuse_run(run: PlannedRun, use: ExpectedUse, limits: Iterable[str]) -> None:
    allowance = run.config.agent.allowance
    for name, amount, limit, shown in (
        ("max_cost", use.cost, allowance.cost, _dollars),
        ("max_time", use.agent_seconds, allowance.seconds, duration),
    ):
        if name in limits and amount is not None and limit is not None and amount.runs and amount.low > limit:
            raise UsageError(
                f"The run {run} is expected to use {_range_text(amount, shown)}, over its {name} of {shown(limit)}, "
                f"which would end it early. Nothing was played. Raise the limit, or cross it, as in --cross "
                f"{name}={limit:g}, to play runs that it ends."
            )


def _range_text(amount: UseRange, shown: Callable[[float], str]) -> str:
    least = "at least " if amount.is_lower_bound else ""
    return f"{least}{shown(amount.expected)} ({shown(amount.low)} to {shown(amount.high)}; {amount.basis})"


def _is_set(config: SuiteConfig, name: str) -> bool:
    """Return whether any agent has a limit, other than as a level that is compared."""
    return name not in config.cross and any(dict(agent).get(name) is not None for agent in config.agents)


def _waiting(config: SuiteConfig, planned: Sequence[PlannedRun]) -> list[PlannedRun]:
    directory = directory_of(config)
    results = find_results(planned, directory) if directory.exists() else {}
    finished = {number for number, result in results.items() if result.verdict is PlannedRunVerdict.FINISHED}
    return [run for run in planned if run.number not in finished]


def _dollars(amount: float) -> str:
    return f"{amount:,.2f} USD"
