"""``evopolicygym.estimate``, and the estimate of a suite: hours, tokens and money before anything is played."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Unpack

from evopolicygym.agents.kit.model_trial import has_local_model, try_model
from evopolicygym.analysis.expected_use import Basis, ExpectedUse, UseRange, add_ranges
from evopolicygym.analysis.tables.studies import use_table
from evopolicygym.analysis.tables.table import Table
from evopolicygym.api.read.table_set import TableSet
from evopolicygym.core.errors import EvoPolicyGymError
from evopolicygym.core.options import RunArguments
from evopolicygym.core.text import counted, duration
from evopolicygym.runs.config import RunConfig, resolve_run_config
from evopolicygym.runs.expected_use import SuiteUse, estimate_run, load_played_runs
from evopolicygym.runs.suites.suite import PlannedRun

SHOWN: Mapping[str, tuple[str, Callable[[float], str]]] = {
    "seconds": ("wall time", duration),
    "agent_seconds": ("time of the agent", duration),
    "tokens": ("tokens", lambda count: f"{count:,.0f}"),
    "cost": ("money", lambda cost: f"{cost:,.2f} USD"),
}
"""Of each amount its name and how it is shown."""
WITHIN = 3.0
"""The factor within which the time of a model is estimated from one request."""


class Estimate(TableSet):
    """What a run is expected to use, with the ranges in which 90 % of such runs are expected to be."""

    def __init__(self, use: ExpectedUse, what: str, notes: Sequence[str] = ()) -> None:
        super().__init__()
        self._use, self._what, self._further_notes = use, what, notes

    @property
    def seconds(self) -> UseRange | None:
        """Wall time in seconds: ``low``, ``median``, ``expected`` (the mean), ``high``, ``basis``, ``runs``.

        ``runs`` is how many runs it stands on, 0 where it is from the task's episodes alone. None where nothing tells.
        """
        return self._use.seconds

    @property
    def tokens(self) -> UseRange | None:
        """Tokens, input and output together; None where no run that was played tells them."""
        return self._use.tokens

    @property
    def cost(self) -> UseRange | None:
        """US dollars: expected tokens by kind at this run's price; None where tokens or the price are unknown."""
        return self._use.cost

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        """One table, with a row for each amount."""
        return (_table(self._what, self._use, self._further_notes),)

    @cached_property
    def document(self) -> Mapping[str, Any]:
        """The amounts by name, each with its range and basis; null where it is unknown."""
        return _document(self._use)


class SuiteEstimate(TableSet):
    """The expected use of a suite's unfinished runs."""

    def __init__(self, use: SuiteUse) -> None:
        super().__init__()
        self.use = use

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        """The whole suite, then each agent in each environment."""
        runs, jobs = counted(len(self.use.runs), "run"), self.use.jobs
        notes = list(dict.fromkeys(note for _, use in self.use.runs for note in _notes(use)))
        amounts = {name: getattr(self.use, name) for name in ("seconds", "tokens", "cost")}
        whole = use_table(
            f"{runs}, {jobs} at once", [(SHOWN[name][0], amounts[name], SHOWN[name][1]) for name in amounts], notes
        )
        parts = [
            (f"{environment}, {entry}: {counted(len(uses), 'run')}", add_ranges(use.seconds for use in uses), duration)
            for (environment, entry), uses in _parts(self.use.runs).items()
        ]
        return whole, use_table("Wall time, one run after another", parts)

    @cached_property
    def document(self) -> Mapping[str, Any]:
        """The amounts of the suite, and of each run."""
        whole = {
            name: amount and amount.document
            for name in ("seconds", "tokens", "cost")
            for amount in [getattr(self.use, name)]
        }
        runs = [
            {
                "environment": run.environment,
                "agent": run.entry,
                "levels": dict(run.levels),
                "repeat": run.repeat,
                **_document(use),
            }
            for run, use in self.use.runs
        ]
        return {**whole, "jobs": self.use.jobs, "runs": runs}


def estimate(
    task: str | Path | None = None,
    agent: str | None = None,
    *,
    config: str | Path | None = None,
    **options: Unpack[RunArguments],
) -> Estimate:
    """Return the expected use of a run; nothing is played or written.

    If no run that was played tells it and the agent is a harness of ours with a local model, that gets one request,
    which tells its speed.

    Args:
        task: As for ``run``.
        agent: As for ``run``, by name.
        config: As for ``run``.
        **options: As for ``run``; earlier runs are read from the directory ``runs``.

    Raises:
        UsageError: An argument is invalid.

    Example:
        >>> evopolicygym.estimate("acrobot", "tuner", budget=64).seconds.expected
    """
    run_config, _ = resolve_run_config(task, agent, options, config)
    use, notes = _with_time_of_model(estimate_run(run_config, load_played_runs(run_config.runs)), run_config)
    budget = counted(run_config.task.budget.episodes, "episode")
    return Estimate(use, f"{run_config.task.environment.name}, {run_config.agent.entry}, {budget}", notes)


def _with_time_of_model(use: ExpectedUse, config: RunConfig) -> tuple[ExpectedUse, list[str]]:
    """Return an estimate that no run tells, with the time of a local model after one request to it, and notes."""
    agent = config.agent
    if use.seconds is None or use.agent_seconds is None or use.seconds.runs or not has_local_model(agent):
        return use, []
    try:
        trial = try_model(agent)
    except EvoPolicyGymError as error:
        return use, [f"The model's time is unknown: {error}"]
    seconds = trial.seconds_of_run(config.task.budget.episodes)
    of_model = UseRange(seconds / WITHIN, seconds, seconds, seconds * WITHIN, "one request to its model", 0)
    whole, of_agent = (
        add_ranges([replace(episodes, basis=Basis.EPISODES.value, is_lower_bound=False), of_model])
        for episodes in (use.seconds, use.agent_seconds)
    )
    read = f"reads {trial.read_speed:.1f} and " if trial.read_speed else ""
    note = f"One request was made: the model {read}writes {trial.write_speed:.1f} tokens a second."
    return replace(use, seconds=whole, agent_seconds=of_agent), [note]


def _table(title: str, use: ExpectedUse, further_notes: Sequence[str]) -> Table:
    rows = [(name, getattr(use, key), shown) for key, (name, shown) in SHOWN.items()]
    return use_table(title, rows, [*_notes(use), *further_notes])


def _notes(use: ExpectedUse) -> list[str]:
    """Return what is to be known of a run's money: the tokens and the price that it is made of, or what is missing."""
    if use.lacks_price:
        return [
            "The price of the model is not known, so money is unknown too. Give it with --price, or as price in a file."
        ]
    if use.price is None:
        return []
    rates = use.price.rates
    cached = "" if rates.cached_input is None else f" ({rates.cached_input:g} cached)"
    price = f"{rates.input:g} USD{cached} for a million tokens in, {rates.output:g} out ({use.price.source})"
    counts = use.token_counts
    if counts is None:
        return [f"Money is at {price}."]
    cached = f", of which {counts.cached_input:,.0f} cached" if counts.cached_input else ""
    return [f"Money: {counts.input:,.0f} tokens in{cached} and {counts.output:,.0f} out are expected, at {price}."]


def _document(use: ExpectedUse) -> dict[str, Any]:
    amounts = {name: amount and amount.document for name in SHOWN for amount in [getattr(use, name)]}
    counts, price = use.token_counts, use.price
    return {
        **amounts,
        "token_counts": None if counts is None else asdict(counts),
        "price": None if price is None else {**asdict(price.rates), "source": price.source, "currency": price.currency},
    }


def _parts(runs: Iterable[tuple[PlannedRun, ExpectedUse]]) -> Mapping[tuple[str, str], Sequence[ExpectedUse]]:
    parts: dict[tuple[str, str], list[ExpectedUse]] = {}
    for run, use in runs:
        parts.setdefault((run.environment, run.entry), []).append(use)
    return parts
