"""What a person asks for when a run begins: as the program has it, and as a TOML file and the command line spell it.

Where a price that nobody gave comes from is not told here but in ``prices.py``.
"""

import os
import re
import shutil
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from evopolicygym.core.agent import IN_WORKSPACE, AgentConfig
from evopolicygym.core.allowance import Allowance
from evopolicygym.core.budget import BudgetRule
from evopolicygym.core.cases import SplitSource
from evopolicygym.core.clock import now
from evopolicygym.core.errors import UsageError
from evopolicygym.core.isolation import written
from evopolicygym.core.places import DEFAULT_RUNS
from evopolicygym.core.price import PriceSnapshot, Rates
from evopolicygym.core.printable import printable
from evopolicygym.core.task import Task
from evopolicygym.rollout.executor import LOCAL
from evopolicygym.sandbox.levels import AUTO, waivable
from evopolicygym.sandbox.packages import normalised
from evopolicygym.specs.catalog import load

DEFAULT_EXPERIMENT = "default"
DEFAULT_AGENT, COMMAND = "tuner", "command"
COMMAND_S = 86_400.0
"""Wall time after which a program of the user's is ended by default: nothing else tells one that sleeps for ever."""
UNLIMITED = "none"
LARGEST_SEED = 2**32 - 1
"""The largest that numpy takes."""
GIVEN = "given"
"""The source of a price that the user named."""
DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", re.ASCII)
LONGEST_LABEL = 80
IN_SECONDS = (86_400, 3_600, 60, 1)
EFFORT = re.compile(r"[a-z][a-z0-9_-]{0,31}", re.ASCII)
VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,127}", re.ASCII)
SECRET = re.compile(r"(?:^|_)(?:api_?)?(?:keys?|secrets?|token|passwords?)$", re.IGNORECASE)
"""Names below which somebody might put a key."""
NO_KEYS = (
    "Keys are never given to a run as they are: put yours into an environment variable and name that in model_key "
    "(--model-key VARIABLE)."
)


@dataclass(frozen=True, slots=True)
class RunConfig:
    """One run to be played."""

    task: Task
    agent: AgentConfig
    split: SplitSource = SplitSource.PRIVATE
    split_directory: Path | None = None
    """Where the cases are read from, for a split of source ``directory``."""
    experiment: str = DEFAULT_EXPERIMENT
    """Runs of one experiment play the same cases."""
    seed: int = 0
    workers: int | None = None
    """How many episodes play at once; None for one each core."""
    runs: Path = DEFAULT_RUNS
    isolation: str = AUTO
    executor: str = LOCAL
    """Where episodes play; like ``workers`` no part of the record, as results don't depend on it."""
    executor_address: str = ""
    pinned: bool = True
    """Whether arithmetic is the same on every processor; not so for runs that were begun before it was."""
    price: PriceSnapshot | None = None
    """What the agent's model costs, where the user said so; else it is looked up."""


class Table(BaseModel):
    """A table of a TOML file: what it doesn't know, it refuses. Fields that may be left out have a default."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


Decoded = TypeVar("Decoded", bound=Table)


class LimitsTable(Table):
    """``[agent.limits]``: what the agent may use before it is ended."""

    max_cost: float | None = None
    max_tokens: int | None = None
    max_time: float | str | None = None
    """``none`` is no limit, for agents that have one by default."""
    max_turns: int | None = None

    def allowance(self, seconds: float | None = None) -> Allowance:
        """Return the limits as a run keeps them; ``seconds`` is the limit of time where none is given."""
        if self.max_time is not None:
            seconds = None if self.max_time == UNLIMITED else duration(self.max_time)
        return Allowance(self.max_cost, self.max_tokens, seconds, self.max_turns)


class PriceTable(Table):
    """``[agent.price]``: US dollars for a million tokens."""

    input: float
    output: float
    cached_input: float | None = None
    cache_write: float | None = None

    def snapshot(self, model: str) -> PriceSnapshot:
        """Return the price as a run keeps it."""
        rates = Rates(self.input, self.output, self.cached_input, self.cache_write)
        return PriceSnapshot(model, GIVEN, now(), rates)


class AgentTable(Table):
    """``[agent]``: who plays, with which model, how much it may use."""

    name: str = ""
    """Empty: ``command`` where there is a command, else the tuner."""
    model: str = ""
    effort: str = ""
    label: str = ""
    """What its runs go by in tables and exports, in place of its name and its command."""
    model_url: str = ""
    model_key: str = ""
    """The name of an environment variable."""
    model_wire: str = ""
    command: list[str] = []
    options: dict[str, Any] = {}
    limits: LimitsTable = LimitsTable()
    price: PriceTable | None = None

    def config(self) -> AgentConfig:
        """Return the agent as a run keeps it; raise ``UsageError`` where it can't be so."""
        name = self.name or (COMMAND if self.command else DEFAULT_AGENT)
        if self.command and name != COMMAND:
            raise UsageError(
                f"The agent {name!r} was asked for, and a command besides; a program of yours is the agent {COMMAND!r}."
            )
        if self.effort and not EFFORT.fullmatch(self.effort):
            raise UsageError(f"The effort {self.effort!r} was asked for; it is one word, such as low, medium or high.")
        if self.model_key and not (VARIABLE.fullmatch(self.model_key) or self.model_key in os.environ):
            raise UsageError(f"What model_key holds is no name of an environment variable. {NO_KEYS}")
        if secret := [name for name in self.options if SECRET.search(name) and name != "model_key"]:
            raise UsageError(f"The option {secret[0]} can't be given. {NO_KEYS}")
        if self.label and (not self.label.isprintable() or self.label.isspace() or len(self.label) > LONGEST_LABEL):
            raise UsageError(
                f"The label {printable(self.label[: 2 * LONGEST_LABEL])!r} was asked for; from 1 to {LONGEST_LABEL} "
                f"characters that can be printed would work."
            )
        doors = {"model_url": self.model_url, "model_key": self.model_key, "model_wire": self.model_wire}
        options = {**self.options, **{name: text for name, text in doors.items() if text}}
        allowance = self.limits.allowance(COMMAND_S if name == COMMAND else None)
        return AgentConfig(name, self.model, options, from_anywhere(self.command), self.effort, allowance, self.label)

    def price_given(self) -> PriceSnapshot | None:
        """Return the price that the user named, if one was."""
        return self.price.snapshot(self.model) if self.price else None


class CommonTable(Table):
    """What runs of one suite have in common. Names are those of the command line's options."""

    budget: int = 128
    validation: int = 16
    held_out: int = 32
    films: int = 0
    split: str = SplitSource.PRIVATE.value
    experiment: str = DEFAULT_EXPERIMENT
    seed: int = 0
    workers: int | None = None
    runs: str = str(DEFAULT_RUNS)
    isolation: str = AUTO
    waive: list[str] = []
    """Walls that the level may lack here (``landlock``, ``seccomp``); the run is marked where it does."""
    executor: str = LOCAL
    address: str = ""
    """Of the executor's cluster."""
    policy_packages: list[str] = []
    """Installed distributions that policies may import besides those that all may."""


class RunTable(CommonTable):
    """A whole run. Paths are as seen from where the program starts."""

    task: str
    """An environment's name, or the path of a spec's ``.toml`` file."""
    agent: AgentTable = AgentTable()

    def config(self) -> RunConfig:
        """Return the run that is asked for; raise ``UsageError`` where it can't be played."""
        source, directory = split_named(self.split)
        rule = BudgetRule(self.budget)
        if not 0 <= self.seed <= LARGEST_SEED:
            raise UsageError(f"A seed of {self.seed} was asked for; whole numbers from 0 to {LARGEST_SEED} would work.")
        return RunConfig(
            task=Task(
                load(self.task),
                rule,
                validation_cases=self.validation,
                held_out_cases=self.held_out,
                films=self.films,
                policy_packages=normalised(self.policy_packages),
            ),
            agent=self.agent.config(),
            split=source,
            split_directory=directory,
            experiment=self.experiment,
            seed=self.seed,
            workers=self.workers,
            runs=Path(self.runs),
            isolation=written(self.isolation, waivable(self.waive)),
            executor=self.executor,
            executor_address=self.address,
            price=self.agent.price_given(),
        )


def read_table(file: Path) -> dict[str, Any]:
    """Return what a TOML file holds; raise ``UsageError`` where it can't be read."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"The configuration {file} can't be read: {error.strerror}.") from error
    except ValueError as error:  # of TOML as of UTF-8
        raise UsageError(f"The configuration {file} is no TOML: {error}.") from error


def overlaid(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return two tables as one, in which ``above`` wins; tables that both have are laid over each other."""
    result = dict(below)
    for name, value in above.items():
        under = result.get(name)
        both = isinstance(value, Mapping) and isinstance(under, Mapping)
        result[name] = overlaid(under, value) if both else value  # type: ignore[arg-type]
    return result


def decode(kind: type[Decoded], document: Mapping[str, Any], origin: str) -> Decoded:
    """Return a table; raise ``UsageError`` that names what is wrong in ``origin`` and what would work."""
    try:
        return kind.model_validate(document)
    except ValidationError as error:
        raise UsageError(f"{origin}: {_told(kind, error)}") from None


def duration(asked: float | str) -> float:
    """Return seconds: of a number, or of a text such as ``90``, ``45m``, ``2h30m`` or ``1d``."""
    text = str(asked).strip()
    found = DURATION.fullmatch(text)
    if text and found:
        return float(sum(int(count or 0) * unit for count, unit in zip(found.groups(), IN_SECONDS, strict=True)))
    try:
        return float(text)
    except ValueError:
        raise UsageError(
            f"A time of {asked!r} was asked for; seconds, a text such as 90s, 45m, 2h30m or 1d, or {UNLIMITED} for "
            f"no limit would work."
        ) from None


def from_anywhere(command: Sequence[str]) -> tuple[str, ...]:
    """Return a command whose words that are paths of files here are absolute.

    Its program starts in the run's workspace, and of this machine sees what its command names by absolute path.
    """
    return tuple(_from_anywhere(word, is_program=place == 0) for place, word in enumerate(command))


def _from_anywhere(word: str, *, is_program: bool) -> str:
    path = Path(word)
    on_search_path = is_program and "/" not in word and shutil.which(word) is not None
    there = bool(path.parts) and path.parts[0] in IN_WORKSPACE
    if path.is_absolute() or on_search_path or there or not os.path.isfile(word):  # noqa: PTH113 - a word may be no path
        return word
    return os.path.normpath(path.absolute())


def split_named(name: str) -> tuple[SplitSource, Path | None]:
    """Return what a person means by a split: ``private``, ``public``, or an existing directory."""
    if name in (SplitSource.PRIVATE, SplitSource.PUBLIC):
        return SplitSource(name), None
    directory = Path(name)
    if not directory.is_dir():
        raise UsageError(
            f"There is no split {name!r}: private, public, or a directory that holds train.json, valid.json and "
            f"heldout.json is asked for."
        )
    return SplitSource.DIRECTORY, directory


def _told(kind: type[Table], error: ValidationError) -> str:
    """Return what is wrong first. No value is ever quoted: there might be a key in it."""
    problem = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "missing":
        return f"{place} is missing."
    if problem["type"] != "extra_forbidden":
        return f"{place} can't be so: {problem['msg']}."
    *path, name = (str(part) for part in problem["loc"])
    keys = f" {NO_KEYS}" if SECRET.search(name) else ""
    return f"{place} is not known here. Known: {', '.join(_names(kind, path))}.{keys}"


def _names(kind: type[Table], path: list[str]) -> Iterator[str]:
    """Yield the names that a table within a table may hold."""
    for step in path:
        field = kind.model_fields.get(step)
        inner = [field.annotation, *get_args(field.annotation)] if field else []
        kind = next((one for one in inner if isinstance(one, type) and issubclass(one, Table)), kind)
    yield from kind.model_fields
