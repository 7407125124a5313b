"""A suite: agents by environments by repeats, as a file or a command asks for them, and the runs that come of it.

What is kept of a suite on disk is not told here but in ``document.py``, how its runs are played in ``play.py``.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from pydantic import Field

from evopolicygym.agents.base import AGENTS, make
from evopolicygym.core.agent import Particular
from evopolicygym.core.errors import UnknownName, UsageError
from evopolicygym.rollout.executor import LOCAL
from evopolicygym.runs.config import (
    DEFAULT_AGENT,
    EFFORT,
    AgentTable,
    CommonTable,
    RunConfig,
    RunTable,
    decode,
    overlaid,
    read_table,
)
from evopolicygym.runs.executor import refuse_unknown
from evopolicygym.runs.policy_packages import refuse_packages
from evopolicygym.runs.prices import price_of, unpriced


class EntryTable(AgentTable):
    """``[[agents]]``: one entry of a suite."""

    @property
    def shown(self) -> str:
        """What the entry goes by: its label, else ``NAME:MODEL@EFFORT``, as far as it has these."""
        model = f":{self.model}" if self.model else ""
        effort = f"@{self.effort}" if self.effort else ""
        return self.label or f"{self.config().name}{model}{effort}"


class SuiteTable(CommonTable):
    """A whole suite. All its runs are of one experiment, so that all agents play the same cases."""

    description: str = ""
    environments: list[str]
    """Names, or paths of specs' ``.toml`` files as seen from where the program starts."""
    agents: list[EntryTable] = Field(default_factory=lambda: [EntryTable(name=DEFAULT_AGENT)])
    repeats: int = 1
    """Each agent plays each environment so often; repeat k has the seed ``seed + k``."""
    experiment: str = ""
    """Left out: the suite's name."""
    jobs: int | None = None
    """How many runs are played at once; None: half as many as there are cores."""


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One run of a suite."""

    number: int
    entry: str
    repeat: int
    config: RunConfig

    @property
    def environment(self) -> str:
        """The environment's name."""
        return self.config.task.environment.name

    def __str__(self) -> str:
        return f"{self.environment} · {self.entry} · repeat {self.repeat}"


def plan(suite: SuiteTable) -> tuple[PlannedRun, ...]:
    """Return a suite's runs in the order in which they begin: each repeat through all environments, then the next.

    What a run plays depends on nothing else in the suite, so that a suite can grow. Raises ``UsageError`` where it
    can't be played as it is.
    """
    _refuse_nonsense(suite)
    common = {name: getattr(suite, name) for name in CommonTable.model_fields}
    agents = [(entry.shown, AgentTable(**_agent(entry))) for entry in suite.agents]
    configs = [
        (label, repeat, RunTable(**{**common, "seed": suite.seed + repeat}, task=task, agent=agent).config())
        for repeat in range(suite.repeats)
        for task in suite.environments
        for label, agent in agents
    ]
    _refuse_twice("environment", [config.task.environment.name for _, _, config in configs[:: len(agents)]], suite)
    return tuple(PlannedRun(number, *one) for number, one in enumerate(configs))


def load(asked: str, given: Mapping[str, Any], every: Mapping[str, Any] | None = None) -> SuiteTable:
    """Return the suite of a name, or of a path to a ``.toml`` file, with what was ``given`` besides laid over it.

    ``every`` is what each of its agents has that says nothing else itself.
    """
    document = overlaid({"experiment": Path(asked).stem, **read_table(_file(asked))}, given)
    if every:
        agents = document.get("agents", [{"name": DEFAULT_AGENT}])
        entries = [overlaid(every, one) if isinstance(one, Mapping) else one for one in agents]
        document = {**document, "agents": entries}
    return decode(SuiteTable, document, str(asked))


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


def looked_over(runs: Iterable[PlannedRun]) -> tuple[str, ...]:
    """Return warnings about a suite's agents, before anything of it is written.

    Raises ``UsageError`` where one of ours can't be made as it is asked for, or there is no such isolation level or
    executor. An agent from outside is made in the process of its run only: what it does there touches no other.
    """
    planned = tuple(runs)
    for run in planned[:1]:  # they have these in common
        refuse_unknown(run.config)
    for task in {run.environment: run.config.task for run in planned}.values():
        refuse_packages(task)
    configs = {run.entry: run.config for run in planned if ":" not in run.config.agent.name}.values()
    found = []
    for config in configs:
        agent = make(config.agent)
        if config.agent.command and isinstance(agent, Particular):
            agent.refuse(config.task.environment.name)
        found.append(unpriced(config.agent, price_of(config, agent)))
    return tuple(dict.fromkeys(warning for warning in found if warning))


def _agent(entry: EntryTable) -> dict[str, Any]:
    return {name: getattr(entry, name) for name in AgentTable.model_fields}


def _built_in() -> Traversable:
    return files("evopolicygym.runs.suites")


def _file(asked: str) -> Path:
    if asked.endswith(".toml"):
        return Path(asked)
    if asked not in names():
        raise UnknownName("suite", asked, names())
    return Path(str(_built_in() / f"{asked}.toml"))


def _refuse_nonsense(suite: SuiteTable) -> None:
    for what, count in (("environments", len(suite.environments)), ("agents", len(suite.agents))):
        if not count:
            raise UsageError(f"The suite has no {what}; at least one is needed.")
    for what, value in (("repeats", suite.repeats), ("jobs", suite.jobs), ("workers", suite.workers)):
        if value is not None and value < 1:
            raise UsageError(f"{what} of {value} was asked for; at least 1 is needed.")
    if suite.executor != LOCAL and (suite.jobs or 1) > 1 and suite.workers is None:
        raise UsageError(
            f"{suite.jobs} runs at once were asked for on the executor {suite.executor!r}, where each would take every "
            f"processor it finds: say with workers (--workers) how many are for one run."
        )
    _refuse_twice("agent", [entry.shown for entry in suite.agents], suite)


def _refuse_twice(kind: str, found: list[str], suite: SuiteTable) -> None:
    twice = [name for name, count in Counter(found).items() if count > (1 if kind == "agent" else suite.repeats)]
    if twice:
        hint = "; give each entry a label of its own" if kind == "agent" else ""
        raise UsageError(
            f"The {kind} {twice[0]!r} stands in the suite twice{hint}. To play it more often, use repeats."
        )
