"""``evopolicygym.run_suite``: agents by environments, several runs at once, each in its own process."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

from evopolicygym.api.play.run import OnWarning
from evopolicygym.core.errors import UnknownName
from evopolicygym.core.options import COMMON_OPTIONS, RUN_OPTIONS, RunArguments, nest_options
from evopolicygym.runs.config import parse_duration
from evopolicygym.runs.expected_use import refuse_over_limits
from evopolicygym.runs.suites.document import directory_of
from evopolicygym.runs.suites.play import Observer, play_suite, prepare_suite
from evopolicygym.runs.suites.records import PlannedRunResult, PlannedRunVerdict
from evopolicygym.runs.suites.schedule import Shard
from evopolicygym.runs.suites.suite import ENTRY_OPTIONS, SuiteConfig, load_suite, parse_entry

OnSuiteEvent = Observer
"""Called with each update of a run's process and with its result."""
SETTABLE = tuple(
    option for option in RUN_OPTIONS if option.name not in {"agent", "model", "effort", "command", "label"}
)
"""Options that can be set for all runs of a suite; the others belong to an agent."""


@dataclass(frozen=True, slots=True)
class SuiteRuns:
    """The runs of a suite with their results."""

    directory: Path
    """The directory of the runs, for ``leaderboard`` and ``load_runs``."""
    results: tuple[PlannedRunResult, ...]
    """Results in starting order, each with ``verdict``, ``root``, ``score``, ``standard_error``, ``message``."""
    interrupted: bool
    """Whether a signal ended it; the same call continues it."""

    @property
    def ok(self) -> bool:
        """Whether every run is finished."""
        return all(result.verdict is PlannedRunVerdict.FINISHED for result in self.results)

    def __iter__(self) -> Iterator[PlannedRunResult]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)


def run_suite(  # noqa: PLR0913 - each is an argument of its own
    suite: str | Path,
    *,
    agents: Sequence[str] = (),
    environments: Sequence[str] = (),
    cross: Mapping[str, Sequence[Any]] | None = None,
    repeats: int | None = None,
    jobs: int | None = None,
    shard: str | None = None,
    total_cost: float | None = None,
    total_time: float | str | None = None,
    on_event: OnSuiteEvent = lambda _run, _update: None,
    on_warning: OnWarning = warnings.warn,
    **options: Unpack[RunArguments],
) -> SuiteRuns:
    """Play agents in environments, several runs at once; called again, it continues.

    Call it in the main thread: Ctrl-C stops all runs cleanly.

    Args:
        suite: A suite's name, such as ``"smoke"``, or the path of a ``.toml`` file.
        agents: Agents as ``"NAME[:MODEL[@EFFORT]]"``. Default: those of the suite, else the tuner.
        environments: Environments instead of the suite's.
        cross: Levels by option, such as ``{"budget": [8, 32]}``; every combination is played.
        repeats: How many times each agent plays each environment.
        jobs: How many runs play at once. Default: half the number of cores.
        shard: ``"I/N"`` plays only part I of N, each on its own machine. Default: all runs.
        total_cost: US dollars; the suite is refused if its expected cost is higher.
        total_time: Seconds, or a text such as ``"2h"``; the suite is refused if its expected time is longer.
        on_event: Called with each update of a run's process and with its result.
        on_warning: Called with each warning. Default: ``warnings.warn``.
        **options: Options of all runs, as for ``run``.

    Returns:
        The directory of the runs and their results. A failed run raises no exception.

    Raises:
        UsageError: An argument is invalid, or the suite was started with other settings; nothing was played.
        RecordError: Another process plays the suite.

    Examples:
        >>> played = evopolicygym.run_suite("smoke", agents=["tuner", "random_search"], repeats=2)
        >>> print(evopolicygym.leaderboard(played.directory).to_markdown())
    """
    config = _configured(str(suite), agents, environments, cross or {}, repeats, jobs, options)
    part = Shard.parse(shard) if shard else None
    config, planned = prepare_suite(config, on_warning, part)
    refuse_over_limits(config, planned, total_cost, None if total_time is None else parse_duration(total_time))
    results, undisturbed = play_suite(config, planned, lambda _results: nullcontext(on_event), part)
    return SuiteRuns(directory_of(config), tuple(results), not undisturbed)


def _configured(
    name: str,
    agents: Sequence[str],
    environments: Sequence[str],
    cross: Mapping[str, Sequence[Any]],
    repeats: int | None,
    jobs: int | None,
    options: Mapping[str, Any],
) -> SuiteConfig:
    """Return the suite with what was given besides, as a TOML file would have it."""
    names = [option.name for option in SETTABLE]
    if unknown := sorted(options.keys() - set(names)):
        raise UnknownName("option of all runs of a suite", unknown[0], names)
    plain = {name: str(value) if isinstance(value, Path) else value for name, value in options.items()}
    given = {name: value for name, value in plain.items() if value is not None}
    of_suite = {
        "agents": [parse_entry(text) for text in agents],
        "environments": list(map(str, environments)),
        "cross": {knob: list(levels) for knob, levels in cross.items()},
        "repeats": repeats,
        "jobs": jobs,
    }
    of_suite = {key: value for key, value in of_suite.items() if value not in (None, [], {})}
    return load_suite(name, {**nest_options(COMMON_OPTIONS, given), **of_suite}, nest_options(ENTRY_OPTIONS, given))
