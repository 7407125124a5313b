"""A suite: agents by environments by repeats, as a file or a command asks for them, its tasks, and the runs planned.

The knobs that a suite can cross are in ``cross.py``; what is kept of a suite on disk, in ``document.py``; how its runs
are played, in ``play.py``.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, cast

from pydantic import Field

from evopolicygym.agents.base import AGENTS, make
from evopolicygym.core.agent import EnvironmentSpecificAgent
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
    price_of,
    refuse_memory,
    refuse_packages,
    refuse_program,
    refuse_unknown,
    unpriced,
)
from evopolicygym.runs.suites.cross import (
    CrossTable,
    Levels,
    cells,
    levels_text,
    refuse_odd_levels,
    refuse_set_besides,
    without,
)
from evopolicygym.specs import catalog, pack_catalog

ENTRY_OPTIONS = tuple(option.in_table for option in AGENT_OPTIONS)
"""An agent's options as an entry's table holds them."""
EntryTable = create_table_model("Entry", ENTRY_OPTIONS)
"""``[[agents]]``: one entry of a suite."""
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
"""A whole suite, as a TOML file holds it."""


@dataclass(frozen=True, slots=True)
class SuiteConfig:
    """A whole suite. All its runs are of one experiment, so that all agents play the same cases."""

    environments: tuple[str, ...]
    """Names, or paths of specs' ``.toml`` files as seen from where the program starts."""
    agents: tuple[AgentOptions, ...]
    common: CommonOptions
    """What all runs have in common; the experiment is by default the suite's name."""
    repeats: int = 1
    """How many times each agent plays each environment; repeat k has the seed ``seed + k``."""
    jobs: int | None = None
    """How many runs are played at once; None: half as many as there are cores."""
    description: str = ""
    cross: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """The levels of each knob that is crossed; every combination is played, on the same cases."""

    def document(self) -> dict[str, Any]:
        """Return the suite as a TOML file holds it; a knob that is crossed has no value of its own."""
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
    """Return what an entry goes by: its label, else ``NAME:MODEL@EFFORT``, as far as it has these."""
    model = f":{entry['model']}" if entry["model"] else ""
    effort = f"@{entry['effort']}" if entry["effort"] else ""
    return entry["label"] or f"{build_agent_config(entry).name}{model}{effort}"


def suite_of(document: Mapping[str, Any], origin: str) -> SuiteConfig:
    """Return the suite that a document asks for, as a TOML file holds it; ``UsageError`` names its ``origin``."""
    table = decode_table(SuiteTable, document, origin).model_dump()
    cross = {name: levels for name in document.get("cross", {}) if (levels := table["cross"][name]) is not None}
    refuse_odd_levels(cross, origin)
    refuse_set_besides(cross, document, origin)
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
    """One run of a suite."""

    number: int
    entry: str
    repeat: int
    config: RunConfig
    levels: Levels = field(default_factory=dict)
    """Of each knob that its suite crosses."""

    @property
    def environment(self) -> str:
        """The environment's name."""
        return self.config.task.environment.name

    def __str__(self) -> str:
        cell = [levels_text(self.levels)] if self.levels else []
        return " · ".join([self.environment, self.entry, *cell, f"repeat {self.repeat}"])


def plan(suite: SuiteConfig, *, playable: bool = True) -> tuple[PlannedRun, ...]:
    """Return a suite's runs in the order in which they begin: each repeat through all environments, then the next.

    In an environment every combination of crossed levels has its turn, by all agents. What a run plays depends on
    nothing else in the suite, so that a suite can grow. Raises ``UsageError`` where it can't be played as it is, or,
    where it is to be ``playable`` here, a pack is missing.
    """
    _refuse_nonsense(suite)
    if playable:
        refuse_missing_packs(suite.environments)
    runs = [
        (entry_name(agent), repeat, build_run_config(task, _of_repeat(suite.common, agent, levels, repeat)), levels)
        for repeat in range(suite.repeats)
        for task in suite.environments
        for levels in cells(suite.cross)
        for agent in suite.agents
    ]
    in_a_task = len(runs) // (suite.repeats * len(suite.environments))
    _refuse_twice("environment", [config.task.environment.name for _, _, config, _ in runs[::in_a_task]], suite)
    return tuple(PlannedRun(number, *item) for number, item in enumerate(runs))


def load(asked: str, given: Mapping[str, Any], every: Mapping[str, Any] | None = None) -> SuiteConfig:
    """Return the suite of a name, or of a path to a ``.toml`` file, with what was ``given`` besides laid over it.

    What is given as crossed overrides what the file says of it, crossed or not.
    ``every`` is what each of its agents has that says nothing else itself.
    """
    in_file = without(read_table(_file(asked)), given.get("cross", {}))
    document = merge_tables({"experiment": Path(asked).stem, **in_file}, given)
    if every:
        agents = document.get("agents", [{"name": DEFAULT_AGENT}])
        entries = [merge_tables(every, agent) if isinstance(agent, Mapping) else agent for agent in agents]
        document = {**document, "agents": entries}
    return suite_of(document, str(asked))


def names() -> list[str]:
    """Return the names of all suites that come with the package, sorted."""
    return sorted(file.name.removesuffix(".toml") for file in _built_in().iterdir() if file.name.endswith(".toml"))


def entry(text: str) -> dict[str, str]:
    """Return the entry that a text of the form ``NAME[:MODEL[@EFFORT]]`` names, as a table.

    A name from outside, ``package.module:make``, holds a colon of its own.
    """
    name, _, model = text.partition(":")
    if model and name not in AGENTS.names():
        attribute, _, model = model.partition(":")
        name = f"{name}:{attribute}"
    before, _, last = model.rpartition("@")
    effort = last if before and EFFORT.fullmatch(last) else ""
    found = {"name": name, "model": before if effort else model, "effort": effort}
    return {key: value for key, value in found.items() if value}


def validate_plan(runs: Iterable[PlannedRun]) -> tuple[str, ...]:
    """Return warnings about a suite's agents, before anything of it is written.

    Raises ``UsageError`` where a built-in agent can't be made as configured, or there is no such isolation or
    executor. An agent from outside is made in the process of its run only: what it does there touches no other.
    """
    planned = tuple(runs)
    for run in planned[:1]:  # they have these in common
        refuse_unknown(run.config)
    tasks = [run.config.task for run in planned]
    for task in {(item.environment.name, item.policy_packages): item for item in tasks}.values():
        if task.policy_packages:
            refuse_packages(task)
    configs = {
        (run.entry, levels_text(run.levels)): run.config for run in planned if ":" not in run.config.agent.name
    }.values()
    found = []
    for config in configs:
        agent = make(config.agent)
        refuse_program(config, agent)
        refuse_memory(config, agent)
        if config.agent.command and isinstance(agent, EnvironmentSpecificAgent):
            agent.refuse(config.task.environment.name)
        found.append(unpriced(config.agent, price_of(config, agent)))
    return tuple(dict.fromkeys(warning for warning in found if warning))


def _of_repeat(common: CommonOptions, agent: AgentOptions, levels: Levels, repeat: int) -> RunOptions:
    return cast("RunOptions", {**common, **agent, **levels, "seed": common["seed"] + repeat})


def _built_in() -> Traversable:
    return files("evopolicygym.runs.suites")


def _file(asked: str) -> Path:
    if asked.endswith(".toml"):
        return Path(asked)
    if asked not in names():
        raise UnknownName("suite", asked, names())
    return Path(str(_built_in() / f"{asked}.toml"))


def _refuse_nonsense(suite: SuiteConfig) -> None:
    for what, count in (("environments", len(suite.environments)), ("agents", len(suite.agents))):
        if not count:
            raise UsageError(f"Invalid suite: expected at least one of {what}, got none.")
    for what, value in (("repeats", suite.repeats), ("jobs", suite.jobs), ("workers", suite.common["workers"])):
        if value is not None and value < 1:
            raise UsageError(f"Invalid {what}: expected an integer from 1, got {value}.")
    executor = suite.common["executor"]
    if executor != LOCAL and (suite.jobs or 1) > 1 and suite.common["workers"] is None:
        raise UsageError(
            f"{suite.jobs} jobs on the executor {executor!r} need workers (--workers N): without it each run takes "
            f"every processor that it finds."
        )
    _refuse_twice("agent", [entry_name(entry) for entry in suite.agents], suite)


def _refuse_twice(kind: str, found: list[str], suite: SuiteConfig) -> None:
    twice = [name for name, count in Counter(found).items() if count > (1 if kind == "agent" else suite.repeats)]
    if twice:
        hint = "; give each entry a label of its own" if kind == "agent" else ""
        raise UsageError(
            f"The {kind} {twice[0]!r} stands in the suite twice{hint}. To play it more often, use repeats."
        )


@dataclass(frozen=True, slots=True)
class SuiteTask:
    """A task of a suite."""

    name: str
    id: str
    """What gymnasium registered."""
    pack: str
    """Empty for an environment that has a spec of its own."""
    max_steps: int | None
    """None where only its simulator knows the limit."""
    challenge: Challenge | None
    random: Anchor | None
    idle: Anchor | None
    degenerate: Anchor | None
    reference: Anchor | None
    headroom: Headroom | None = None

    @property
    def zero(self) -> float | None:
        """The score that stands for 0: the better one of random and idle play; None where neither was measured."""
        return max((anchor.mean for anchor in (self.random, self.idle) if anchor), default=None)

    def normalised(self, score: float) -> float | None:
        """Return a score as a share of the way to the best known one; above 1 what is better, None where none is."""
        if self.headroom is None or self.zero is None:
            return None
        return (score - self.zero) / (self.headroom.best_known - self.zero)


def suite_task(asked: str) -> SuiteTask:
    """Return what is known of a task that a suite names; raise ``UnknownName`` where nobody knows it."""
    if not _has_spec(asked) and (found := pack_catalog.find(asked)):
        return _of_pack(*found)
    spec = catalog.load(asked)
    anchors = spec.random_anchor, spec.idle_anchor, spec.degenerate_anchor, spec.reference_anchor
    return SuiteTask(spec.name, spec.registered_id, "", spec.max_steps, None, *anchors)


class MissingPacks(UsageError):
    """A suite needs packs that can't be played before they are installed."""

    def __init__(self, tasks: Mapping[str, Sequence[str]]) -> None:
        """``tasks`` are the names of the tasks that need each missing pack, by the pack's name or file."""
        self.packs = [pack_catalog.load(asked) for asked in tasks]
        what = "a pack that is" if len(tasks) == 1 else f"{len(tasks)} packs that are"
        lines = [f"  {_how_to_install(pack)}   for {', '.join(tasks[pack.asked_by])}\n" for pack in self.packs]
        super().__init__(
            f"The suite needs {what} not installed, so nothing was played. What installs:\n{''.join(lines)}"
            f"--environment NAME, which may be given several times, plays a part of the suite."
        )

    @property
    def can_be_installed(self) -> bool:
        """Whether ``evopolicygym packs install`` installs all of them."""
        return not any(pack.is_beside_us for pack in self.packs)


def refuse_missing_packs(environments: Iterable[str]) -> None:
    """Raise ``MissingPacks`` where packs that environments need can't be played."""
    missing: dict[str, list[str]] = {}
    for environment in environments:
        if not _has_spec(environment) and (found := pack_catalog.find(environment)) and _is_missing(found[0]):
            missing.setdefault(found[0].asked_by, []).append(found[1].name)
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
    return f"evopolicygym packs install {pack.asked_by}   ({pack.size_mb} MB)"


def _has_spec(asked: str) -> bool:
    return asked.endswith(".toml") or asked in catalog.names()


def _of_pack(pack: Pack, task: PackTask) -> SuiteTask:
    found = task.anchors
    steps = task.max_steps or (found.max_steps if found else None)
    anchors = (found.random, found.idle, found.degenerate, found.reference) if found else (None,) * 4
    return SuiteTask(task.name, task.id, pack.name, steps, task.challenge, *anchors, headroom=task.headroom)
