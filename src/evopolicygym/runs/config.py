"""The configuration of a run: its options, from a TOML file or from arguments, and the task and the agent they make.

The pydantic models of a run's and a suite's TOML file follow from the options' declarations. Prices that nobody gave
are looked up elsewhere.
"""

import os
import re
import shutil
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar, cast, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

from evopolicygym.agents.base import AGENTS
from evopolicygym.agents.kit.session import FUNCTION_AGENT, AgentFunction, FunctionAgent, function_name
from evopolicygym.core.agent import (
    IN_WORKSPACE,
    INTERACTIVE,
    SHELL,
    Agent,
    AgentConfig,
    Allowance,
    PriceSnapshot,
    Rates,
)
from evopolicygym.core.cases import SplitSource
from evopolicygym.core.decoding import DecodingProblem, Undecodable, decoder
from evopolicygym.core.errors import UnknownName, UsageError
from evopolicygym.core.isolation import Isolation
from evopolicygym.core.options import (
    AUTO,
    COMMAND,
    DEFAULT_AGENT,
    DEFAULT_EXPERIMENT,
    LOCAL,
    RUN_OPTIONS,
    AgentOptions,
    Option,
    RunOptions,
    flatten_options,
    nest_options,
)
from evopolicygym.core.places import DEFAULT_RUNS
from evopolicygym.core.task import BudgetRule, FeedbackProfile, Limits, Task, TaskText
from evopolicygym.core.text import now, printable
from evopolicygym.runs.asked_environment import asked_environment
from evopolicygym.sandbox.levels import waivable
from evopolicygym.sandbox.packages import normalised
from evopolicygym.specs import catalog

SECRET = re.compile(r"(?:^|_)(?:api_?)?(?:keys?|secrets?|token|passwords?)$", re.IGNORECASE)
"""Names below which somebody might put a key."""
NO_KEYS = (
    "Keys are never given to a run as they are: put yours into an environment variable and name that in model_key "
    "(--model-key VARIABLE)."
)
COMMAND_S = 86_400.0
"""Wall time after which a program of the user's is ended by default: nothing else tells one that sleeps for ever."""
UNLIMITED = "none"
PYTHON = "evopolicygym.run"
"""What is named where an argument is invalid."""
LARGEST_SEED = 2**32 - 1
"""The largest that numpy takes."""
GIVEN = "given"
"""The source of a price that the user named."""
DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", re.ASCII)
LONGEST_LABEL = 80
IN_SECONDS = (86_400, 3_600, 60, 1)
EFFORT = re.compile(r"[a-z][a-z0-9_-]{0,31}", re.ASCII)
VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,127}", re.ASCII)


class TomlTable(BaseModel):
    """A table of a TOML file: what it doesn't know, it refuses. Fields that may be left out have a default."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class PriceTable(TomlTable):
    """``[agent.price]``: US dollars for a million tokens."""

    input: float
    output: float
    cached_input: float | None = None
    cache_write: float | None = None


Decoded = TypeVar("Decoded", bound=TomlTable)
_LIMITS: dict[str, Any] = {limit.name: (get_type_hints(Limits)[limit.name], limit.default) for limit in fields(Limits)}
LimitsTable = create_model("LimitsTable", __base__=TomlTable, **_LIMITS)
"""``[policy_limits]``."""
TABLES_OF = {"price": PriceTable | None, "policy_limits": LimitsTable}
"""Options whose value is a table with keys of its own."""


def table_of(name: str, options: Iterable[Option], **further: Any) -> type[TomlTable]:  # noqa: ANN401 - pydantic's
    """Return the table that holds declared options, each where it says; ``further`` are fields as pydantic has them."""
    own: dict[str, Any] = {}
    inner: dict[str, list[Option]] = {}
    for option in options:
        if option.tables:
            inner.setdefault(option.tables[0], []).append(option)
        else:
            own[option.key] = _field(option)
    own |= further
    for title, options_below in inner.items():
        below = table_of(f"{name}.{title}", [option.in_table for option in options_below])
        own[title] = (below, Field(default_factory=below))
    return create_model(name, __base__=TomlTable, **own)


def _field(option: Option) -> tuple[Any, Any]:
    kind, default = TABLES_OF.get(option.name, option.type), option.default
    if isinstance(kind, type) and issubclass(kind, TomlTable):
        return kind, Field(default_factory=kind)
    return kind, Field(default_factory=lambda: copy(default))


RunTable = table_of("Run", RUN_OPTIONS, task=(str, ...))
"""A whole run, as a TOML file holds it. Paths are as seen from where the program starts."""


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
    track: str = ""
    """The tracker that the run is logged to besides; like ``workers`` no part of the record."""
    pinned: bool = True
    """Whether arithmetic is the same on every processor; not so for runs that were begun before it was."""
    price: PriceSnapshot | None = None
    """What the agent's model costs, where the user said so; else it is looked up."""


def config_of(task: str, options: RunOptions) -> RunConfig:
    """Return the run of a task with all options, defaults included; raise ``UsageError`` where one is invalid.

    ``task`` is an environment's name, or the path of a spec's ``.toml`` file.
    """
    source, directory = split_named(options["split"])
    seed = options["seed"]
    if not 0 <= seed <= LARGEST_SEED:
        raise UsageError(f"Invalid seed: expected an integer from 0 to {LARGEST_SEED}, got {seed}.")
    environment, text = asked_environment(task, TaskText(options["text"]), options["imports"], options["make"])
    options = {**options, "text": text.value}
    return RunConfig(
        task=Task(
            environment,
            BudgetRule(options["budget"], options["min_episodes"], options["max_episodes"], options["max_submissions"]),
            validation_cases=options["validation"],
            held_out_cases=options["held_out"],
            train_cases=options["train_cases"],
            limits=Limits(**options["policy_limits"]),  # type: ignore[arg-type] # typed as they were decoded
            feedback=FeedbackProfile(options["feedback"]),
            finish_allowed=options["finish"] or options["agent"] == SHELL,
            films=options["films"],
            policy_packages=normalised(named) if (named := options["policy_packages"]) else (),
            choices=choices_of(options),
        ),
        agent=agent_of(options),
        split=source,
        split_directory=directory,
        experiment=options["experiment"],
        seed=seed,
        workers=options["workers"],
        runs=Path(options["runs"]),
        isolation=str(Isolation(options["isolation"], waivable(options["waive"]))),
        executor=options["executor"],
        executor_address=options["address"],
        track=options["track"],
        price=price_given(options),
    )


def configured(
    task: str | Path | None,
    agent: str | AgentFunction | None,
    options: Mapping[str, Any],
    config: str | Path | None = None,
) -> tuple[RunConfig, Agent | None]:
    """Return the run that is asked for, and the agent where it is a function; raise ``UsageError``.

    ``config`` is a TOML file that holds a run; what is given besides overrides it.
    """
    names = [option.name for option in RUN_OPTIONS]
    if unknown := sorted(options.keys() - set(names)):
        raise UnknownName("option of a run", unknown[0], names)
    given = {name: _plain(value) for name, value in options.items() if value is not None}
    function = agent if callable(agent) else None
    if function is not None:
        given = {"label": function_name(function), **given, "agent": FUNCTION_AGENT}
    elif agent is not None:
        given["agent"] = agent
    document = merge_tables(read_table(Path(config)) if config else {}, nest_options(RUN_OPTIONS, given))
    if task is not None:
        document["task"] = str(task)
    if "task" not in document:
        raise UsageError(
            'Missing TASK. Example: evopolicygym run acrobot, evopolicygym.run("acrobot"), or task = "acrobot" in a '
            "configuration file."
        )
    _refuse_other_names(document)
    found = configured_run(document, str(config or PYTHON))
    return found, FunctionAgent(function) if function else None


def configured_run(document: Mapping[str, Any], origin: str) -> RunConfig:
    """Return the run that a document asks for, as a TOML file holds it; ``UsageError`` names its ``origin``."""
    table = decode(RunTable, document, origin).model_dump()
    return config_of(table["task"], cast("RunOptions", flatten_options(RUN_OPTIONS, table)))


def choices_of(options: RunOptions) -> dict[str, Any]:
    """Return the options that runs must agree in and that have no field of their own, where they aren't the default."""
    values: Mapping[str, Any] = options
    return {
        option.name: values[option.name]
        for option in RUN_OPTIONS
        if option.comparability_label and not option.task_field and values[option.name] != option.default
    }


def agent_of(options: AgentOptions) -> AgentConfig:
    """Return the agent as a run keeps it; raise ``UsageError`` where its options are invalid."""
    command, effort, label, model_key = options["command"], options["effort"], options["label"], options["model_key"]
    name = options["agent"] or (COMMAND if command else DEFAULT_AGENT)
    if command and name != COMMAND:
        raise UsageError(
            f"--agent {name} and a command are mutually exclusive: a program of yours is the agent {COMMAND!r}."
        )
    if effort and not EFFORT.fullmatch(effort):
        raise UsageError(f"Invalid effort: expected one word, such as low, medium or high, got {effort!r}.")
    if model_key and not (VARIABLE.fullmatch(model_key) or model_key in os.environ):
        raise UsageError(f"Invalid model_key: expected the name of an environment variable. {NO_KEYS}")
    if secret := [name for name in options["options"] if SECRET.search(name) and name != "model_key"]:
        raise UsageError(f"The option {secret[0]} is not accepted. {NO_KEYS}")
    if label and (not label.isprintable() or label.isspace() or len(label) > LONGEST_LABEL):
        raise UsageError(
            f"Invalid label: expected 1 to {LONGEST_LABEL} printable characters, got "
            f"{printable(label[: 2 * LONGEST_LABEL])!r}."
        )
    endpoint = {"model_url": options["model_url"], "model_key": model_key, "model_wire": options["model_wire"]}
    extra = {**options["options"], **{name: text for name, text in endpoint.items() if text}}
    if options["interactive"]:
        extra[INTERACTIVE] = True
    allowance = allowance_of(options, COMMAND_S if name == COMMAND else None)
    return AgentConfig(name, options["model"], extra, absolutize_paths(command), effort, allowance, label)


def allowance_of(options: AgentOptions, seconds: float | None = None) -> Allowance:
    """Return the limits as a run keeps them; ``seconds`` is the limit of time where none is given."""
    if (limit := options["max_time"]) is not None:
        seconds = None if limit == UNLIMITED else duration(limit)
    return Allowance(options["max_cost"], options["max_tokens"], seconds, options["max_turns"])


def price_given(options: AgentOptions) -> PriceSnapshot | None:
    """Return the price that the user named, if one was."""
    if not (price := options["price"]):
        return None
    rates = Rates(price["input"], price["output"], price.get("cached_input"), price.get("cache_write"))
    return PriceSnapshot(options["model"], GIVEN, now(), rates)


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
            f"Invalid time: expected seconds, a text such as 90s, 45m, 2h30m or 1d, or {UNLIMITED} for no limit, got "
            f"{asked!r}."
        ) from None


def absolutize_paths(command: Sequence[str]) -> tuple[str, ...]:
    """Return a command whose words that are paths of files here are absolute.

    Its program starts in the run's workspace, and of this machine sees what its command names by absolute path.
    """
    return tuple(_absolutize_word(word, is_program=place == 0) for place, word in enumerate(command))


def _absolutize_word(word: str, *, is_program: bool) -> str:
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
            f"Invalid split {name!r}: expected private, public, or a directory that holds train.json, valid.json "
            f"and heldout.json."
        )
    return SplitSource.DIRECTORY, directory


def _refuse_other_names(document: Mapping[str, Any]) -> None:
    """Raise ``UsageError`` for a command that is the name of an agent or an environment, and no program."""
    task, command = document["task"], (document.get("agent") or {}).get("command") or [""]
    name = command[0]
    if not name or shutil.which(name) or Path(name).exists():
        return
    if name in AGENTS.names():
        raise UsageError(
            f"There is no program {name!r} here. Did you mean the built-in agent? "
            f"evopolicygym run {task} --agent {name}"
        )
    if name in catalog.names():
        raise UsageError(
            f"A run plays one environment, got {task} and {name}. Run one: evopolicygym run {name}; several: "
            f"evopolicygym suite FILE (evopolicygym suites lists those that ship)."
        )


def _plain(value: Any) -> Any:  # noqa: ANN401 - any option's
    """Return a value as a TOML file would hold it."""
    if isinstance(value, Path):
        return str(value)
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value


def read_table(file: Path) -> dict[str, Any]:
    """Return what a TOML file holds; raise ``UsageError`` where it can't be read."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"The configuration {file} can't be read: {error.strerror}.") from error
    except ValueError as error:  # of TOML as of UTF-8
        raise UsageError(f"Invalid configuration {file}: expected TOML: {error}.") from error


def merge_tables(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return two tables as one, in which ``above`` overrides; tables that both have are laid over each other."""
    result = dict(below)
    for name, value in above.items():
        under = result.get(name)
        both = isinstance(value, Mapping) and isinstance(under, Mapping)
        result[name] = merge_tables(under, value) if both else value  # type: ignore[arg-type]
    return result


def decode(kind: type[Decoded], document: Mapping[str, Any], origin: str) -> Decoded:
    """Return a table; raise ``UsageError`` that names what is wrong in ``origin`` and what is expected."""
    try:
        return decoder(kind).value(document)
    except Undecodable as error:
        raise UsageError(f"{origin}: {_wrong(kind, error.problems[0])}") from None


def _wrong(kind: type[TomlTable], problem: DecodingProblem) -> str:
    """Return what is wrong. No value is ever quoted: there might be a key in it."""
    if problem.is_missing:
        return f"Missing {problem.where}."
    if not problem.is_unknown:
        return f"Invalid {problem.where}: {problem.message[:1].lower()}{problem.message[1:]}."
    *path, name = problem.path
    keys = f" {NO_KEYS}" if SECRET.search(name) else ""
    return f"{problem.where} is not known here. Known: {', '.join(_names(kind, path))}.{keys}"


def _names(kind: type[TomlTable], path: list[str]) -> Iterator[str]:
    """Yield the names that a table within a table may hold."""
    for step in path:
        field = kind.model_fields.get(step)
        inner = [field.annotation, *get_args(field.annotation)] if field else []
        kind = next((table for table in inner if isinstance(table, type) and issubclass(table, TomlTable)), kind)
    yield from kind.model_fields
