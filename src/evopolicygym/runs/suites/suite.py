"""Configuration of a suite (agents by environments by repeats), its tasks, and its planned runs."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, cast

from pydantic import Field

from evopolicygym.agents.base import AGENTS, make
from evopolicygym.core.agent import EnvironmentSpecificAgent, planned_name
from evopolicygym.core.errors import UnknownName, UsageError
from evopolicygym.core.options import (
    AGENT_OPTIONS,
    COMMON_OPTIONS,
    DEFAULT_AGENT,
    LOCAL,
    AgentOptions,
    CommonOptions,
    RunOptions,
    flatten_options,
    nest_options,
)
from evopolicygym.core.pack import Challenge, Headroom, Pack, PackTask
from evopolicygym.core.task import Anchor
from evopolicygym.core.text import shell_word
from evopolicygym.environments.versions import are_installed
from evopolicygym.packs.installation import needed
from evopolicygym.runs.config import (
    EFFORT,
    RunConfig,
    build_agent_config,
    build_run_config,
    create_table_model,
    decode_table,
    merge_tables,
    read_table,
)
from evopolicygym.runs.preflight import (
    missing_price_warning,
    refuse_packages,
    refuse_program,
    refuse_unknown,
    refuse_unsuitable,
    resolve_price,
)
from evopolicygym.runs.suites.cross import (
    CrossTable,
    Levels,
    check_levels,
    check_single_setting,
    drop_options,
    expand_cells,
    format_levels,
)
from evopolicygym.specs import catalog, pack_catalog

ENTRY_OPTIONS = tuple(option.in_table for option in AGENT_OPTIONS)
"""An agent's options as keys of ``[[agents]]``."""
EntryTable = create_table_model("Entry", ENTRY_OPTIONS)
"""``[[agents]]``: an entry of a suite."""
SuiteTable = create_table_model(
    "Suite",
    COMMON_OPTIONS,
    description=(str, ""),
    environments=(list[str], ...),
    agents=(
        list[EntryTable],  # type: ignore[valid-type] # made above
        Field(default_factory=lambda: [EntryTable.model_validate({"name": DEFAULT_AGENT})]),
    ),
    cross=(CrossTable, Field(default_factory=CrossTable)),
    repeats=(int, 1),
    jobs=(int | None, None),
)
"""A suite's TOML file."""


@dataclass(frozen=True, slots=True)
class SuiteConfig:
    """Configuration of a suite. Its runs share an experiment, so that all agents play the same cases."""

    environments: tuple[str, ...]
    """Names, or paths of specs' ``.toml`` files relative to the working directory."""
    agents: tuple[AgentOptions, ...]
    common: CommonOptions
    """Options of all runs; the experiment is by default the suite's name."""
    repeats: int = 1
    """How many times each agent plays each environment; repeat k has the seed ``seed + k``."""
    jobs: int | None = None
    """How many runs are played at once; None for half the number of cores."""
    description: str = ""
    cross: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """The levels of each crossed knob; every combination is played on the same cases."""

    def document(self) -> dict[str, Any]:
        """Return the suite as a TOML document, without values of crossed knobs."""
        return {
            **nest_options(COMMON_OPTIONS, self._uncrossed(self.common)),
            "description": self.description,
            "environments": list(self.environments),
            "agents": [nest_options(ENTRY_OPTIONS, self._uncrossed(entry)) for entry in self.agents],
            **({"cross": {name: list(levels) for name, levels in self.cross.items()}} if self.cross else {}),
            "repeats": self.repeats,
            "jobs": self.jobs,
        }

    def _uncrossed(self, options: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in options.items() if name not in self.cross}


def entry_name(entry: AgentOptions) -> str:
    """Return what a suite calls an entry."""
    return planned_name(build_agent_config(entry).name, entry["model"], entry["effort"], entry["label"])


def decode_suite(document: Mapping[str, Any], origin: str) -> SuiteConfig:
    """Decode a TOML document; a ``UsageError`` names its ``origin``."""
    table = decode_table(SuiteTable, document, origin).model_dump()
    cross = {name: levels for name in document.get("cross", {}) if (levels := table["cross"][name]) is not None}
    check_levels(cross, origin)
    check_single_setting(cross, document, origin)
    return SuiteConfig(
        environments=tuple(table["environments"]),
        agents=tuple(cast("AgentOptions", flatten_options(ENTRY_OPTIONS, agent)) for agent in table["agents"]),
        common=cast("CommonOptions", flatten_options(COMMON_OPTIONS, table)),
        repeats=table["repeats"],
        jobs=table["jobs"],
        description=table["description"],
        cross={name: tuple(levels) for name, levels in cross.items()},
    )


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A run of a suite."""

    number: int
    entry: str
    repeat: int
    config: RunConfig
    levels: Levels = field(default_factory=dict)
    """The level of each crossed knob."""

    @property
    def environment(self) -> str:
        """The environment's name."""
        return self.config.task.environment.name

    def __str__(self) -> str:
        cell = [format_levels(self.levels)] if self.levels else []
        return " · ".join([self.environment, self.entry, *cell, f"repeat {self.repeat}"])


def plan(suite: SuiteConfig, *, playable: bool = True) -> tuple[PlannedRun, ...]:
    """Return a suite's runs by repeat, environment, crossed levels and agent.

    A run doesn't depend on other runs of the suite, so that a suite can grow. Raises ``UsageError`` if the suite is
    invalid or, if it must be ``playable`` here, a pack is missing.
    """
    _check_counts(suite)
    if playable:
        refuse_missing_packs(suite.environments)
    runs = [
        (entry_name(agent), repeat, build_run_config(task, _run_options(suite.common, agent, levels, repeat)), levels)
        for repeat in range(suite.repeats)
        for task in suite.environments
        for levels in expand_cells(suite.cross)
        for agent in suite.agents
    ]
    runs_per_task = len(runs) // (suite.repeats * len(suite.environments))
    tasks = [config.task.environment.name for _, _, config, _ in runs[::runs_per_task]]
    _refuse_duplicates("environment", tasks, suite)
    return tuple(PlannedRun(number, *item) for number, item in enumerate(runs))


def load_suite(name: str, overrides: Mapping[str, Any], agent_defaults: Mapping[str, Any] | None = None) -> SuiteConfig:
    """Return the suite with this name or ``.toml`` file, with ``overrides``.

    A crossed override replaces the file's value or levels. ``agent_defaults`` are options of agents that don't set
    them.
    """
    in_file = drop_options(read_table(_suite_file(name)), overrides.get("cross", {}))
    document = merge_tables({"experiment": Path(name).stem, **in_file}, overrides)
    if agent_defaults:
        agents = document.get("agents", [{"name": DEFAULT_AGENT}])
        entries = [merge_tables(agent_defaults, agent) if isinstance(agent, Mapping) else agent for agent in agents]
        document = {**document, "agents": entries}
    return decode_suite(document, str(name))


def suite_names() -> list[str]:
    """Return the sorted names of all suites that ship."""
    names = (file.name for file in _shipped_suites().iterdir())
    return sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml"))


def parse_entry(text: str) -> dict[str, str]:
    """Parse ``NAME[:MODEL[@EFFORT]]`` into an entry's table.

    The name of an agent from another package, ``package.module:make``, contains a colon itself.
    """
    name, _, model = text.partition(":")
    if model and name not in AGENTS.names():
        attribute, _, model = model.partition(":")
        name = f"{name}:{attribute}"
    before, _, last = model.rpartition("@")
    effort = last if before and EFFORT.fullmatch(last) else ""
    entry = {"name": name, "model": before if effort else model, "effort": effort}
    return {key: value for key, value in entry.items() if value}


def validate_plan(planned: Sequence[PlannedRun]) -> None:
    """Raise ``UsageError`` if the isolation or executor of a suite, or a task's policy package, is unknown."""
    for run in planned[:1]:  # the same for all runs
        refuse_unknown(run.config)
    tasks = [run.config.task for run in planned]
    for task in {(item.environment.name, item.policy_packages): item for item in tasks}.values():
        if task.policy_packages:
            refuse_packages(task)


def validate_agents(planned: Iterable[PlannedRun]) -> tuple[str, ...]:
    """Return warnings about a suite's agents, before anything is written.

    Raises ``UsageError`` if a built-in agent's configuration is invalid. An agent of another package is created only in
    the process of its run, so that it can't affect others.
    """
    configs = {
        (run.entry, format_levels(run.levels)): run.config for run in planned if ":" not in run.config.agent.name
    }.values()
    warnings = []
    for config in configs:
        agent = make(config.agent)
        refuse_program(config, agent)
        refuse_unsuitable(config, agent)
        if config.agent.command and isinstance(agent, EnvironmentSpecificAgent):
            agent.refuse(config.task.environment.name)
        warnings.append(missing_price_warning(config.agent, resolve_price(config, agent)))
    return tuple(dict.fromkeys(warning for warning in warnings if warning))


def _run_options(common: CommonOptions, agent: AgentOptions, levels: Levels, repeat: int) -> RunOptions:
    return cast("RunOptions", {**common, **agent, **levels, "seed": common["seed"] + repeat})


def _shipped_suites() -> Traversable:
    return files("evopolicygym.runs.suites")


def _suite_file(name: str) -> Path:
    if name.endswith(".toml"):
        return Path(name)
    if name not in suite_names():
        raise UnknownName("suite", name, suite_names())
    return Path(str(_shipped_suites() / f"{name}.toml"))


def _check_counts(suite: SuiteConfig) -> None:
    for what, count in (("environments", len(suite.environments)), ("agents", len(suite.agents))):
        if not count:
            raise UsageError(f"Invalid suite: expected at least one of {what}, got none.")
    for what, value in (("repeats", suite.repeats), ("jobs", suite.jobs), ("workers", suite.common["workers"])):
        if value is not None and value < 1:
            raise UsageError(f"Invalid {what}: expected an integer from 1, got {value}.")
    executor = suite.common["executor"]
    if executor != LOCAL and (suite.jobs or 1) > 1 and suite.common["workers"] is None:
        raise UsageError(
            f"Missing workers: {suite.jobs} jobs on the executor {executor!r} need --workers N; without it "
            f"each run takes all processors."
        )
    _refuse_duplicates("agent", [entry_name(entry) for entry in suite.agents], suite)


def _refuse_duplicates(kind: str, names: list[str], suite: SuiteConfig) -> None:
    duplicates = [name for name, count in Counter(names).items() if count > (1 if kind == "agent" else suite.repeats)]
    if duplicates:
        hint = "; give each entry a different label" if kind == "agent" else ""
        raise UsageError(
            f"Invalid suite: the {kind} {duplicates[0]!r} appears twice{hint}. To play it more often, use repeats."
        )


@dataclass(frozen=True, slots=True)
class SuiteTask:
    """A task of a suite."""

    name: str
    id: str
    """The id that gymnasium registered."""
    pack: str
    """Empty for an environment with its own spec."""
    max_steps: int | None
    """None if only the simulator knows the limit."""
    challenge: Challenge | None
    random: Anchor | None
    idle: Anchor | None
    degenerate: Anchor | None
    reference: Anchor | None
    headroom: Headroom | None = None

    @property
    def zero(self) -> float | None:
        """The score normalised to 0: the better of random and idle play; None if neither was measured."""
        return max((anchor.mean for anchor in (self.random, self.idle) if anchor), default=None)

    def normalised(self, score: float) -> float | None:
        """Return a score normalised so that the best known score is 1; None if that is unknown."""
        if self.headroom is None or self.zero is None:
            return None
        return (score - self.zero) / (self.headroom.best_known - self.zero)


def suite_task(name: str) -> SuiteTask:
    """Return the details of a suite's task; raise ``UnknownName`` if it is unknown."""
    if not _has_spec(name) and (match := pack_catalog.find(name)):
        return _pack_suite_task(*match)
    spec = catalog.load(name)
    anchors = spec.random_anchor, spec.idle_anchor, spec.degenerate_anchor, spec.reference_anchor
    return SuiteTask(spec.name, spec.registered_id, "", spec.max_steps, None, *anchors)


class MissingPacks(UsageError):
    """A suite needs packs that are not installed."""

    def __init__(self, tasks: Mapping[str, Sequence[str]]) -> None:
        """``tasks`` maps a missing pack's name or file to the tasks that need it."""
        self.packs = [pack_catalog.load(name) for name in tasks]
        what = "a pack that is" if len(tasks) == 1 else f"{len(tasks)} packs that are"
        lines = [f"  {_how_to_install(pack)}   for {', '.join(tasks[pack.asked_by])}\n" for pack in self.packs]
        super().__init__(
            f"The suite needs {what} not installed, so nothing was played. To install:\n{''.join(lines)}"
            f"To play a part of the suite: --environment NAME, which may be given several times."
        )

    @property
    def can_be_installed(self) -> bool:
        """Whether ``evopolicygym packs install`` installs all of them."""
        return not any(pack.is_beside_us for pack in self.packs)


def refuse_missing_packs(environments: Iterable[str]) -> None:
    """Raise ``MissingPacks`` if packs that environments need are not installed."""
    missing: dict[str, list[str]] = {}
    for environment in environments:
        if not _has_spec(environment) and (match := pack_catalog.find(environment)) and _is_missing(match[0]):
            missing.setdefault(match[0].asked_by, []).append(match[1].name)
    if missing:
        raise MissingPacks(missing)


def _is_missing(pack: Pack) -> bool:
    if pack.is_beside_us:
        return not are_installed(pack.packages)
    try:
        needed(pack)
    except UsageError:
        return True
    return False


def _how_to_install(pack: Pack) -> str:
    if pack.is_beside_us:
        return f"pip install 'evopolicygym[{pack.extra}]'"
    return f"evopolicygym packs install {shell_word(pack.asked_by)}   ({pack.size_mb} MB)"


def _has_spec(name: str) -> bool:
    return name.endswith(".toml") or name in catalog.names()


def _pack_suite_task(pack: Pack, task: PackTask) -> SuiteTask:
    measured = task.anchors
    steps = task.max_steps or (measured.max_steps if measured else None)
    anchors = (measured.random, measured.idle, measured.degenerate, measured.reference) if measured else (None,) * 4
    return SuiteTask(task.name, task.id, pack.name, steps, task.challenge, *anchors, headroom=task.headroom)
