"""The configuration of a run, decoded from options that a TOML file or arguments give.

The pydantic models of a run's and a suite's TOML file are created from the options' declarations.
"""

import os
import re
import shutil
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar, cast, get_args, get_type_hints

import numpy as np
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
from evopolicygym.core.cases import NONCE, SplitSource
from evopolicygym.core.decoding import DecodingProblem, Undecodable, decoder
from evopolicygym.core.directories import DEFAULT_RUNS
from evopolicygym.core.errors import UnknownName, UsageError
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
from evopolicygym.core.rollout import Isolation
from evopolicygym.core.task import BudgetRule, FeedbackProfile, Limits, Task, TaskText
from evopolicygym.core.text import now, printable, shell_word
from evopolicygym.core.world import STANDARD, World
from evopolicygym.environments.pickled import Maker, reference_to
from evopolicygym.records.group_access import GROUP
from evopolicygym.records.skill import skill_identity
from evopolicygym.runs.environment import resolve_environment, resolve_world
from evopolicygym.sandbox.levels import parse_features
from evopolicygym.sandbox.packages import normalise_names
from evopolicygym.specs import catalog

SECRET = re.compile(r"(?:^|_)(?:api_?)?(?:keys?|secrets?|token|passwords?)$", re.IGNORECASE)
"""Option names that might contain a key."""
NO_KEYS = (
    "Keys are never passed to a run directly: put yours into an environment variable and name the variable in "
    "model_key (--model-key VARIABLE)."
)
COMMAND_S = 86_400.0
"""Default time limit of a user's program: nothing else stops a program that sleeps for ever."""
UNLIMITED = "none"
PYTHON = "evopolicygym.run"
"""The origin of Python arguments in error messages."""
LARGEST_SEED = 2**32 - 1
"""The largest seed that numpy accepts."""
GIVEN = "given"
"""The source of a price that the user gave."""
DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", re.ASCII)
LONGEST_LABEL = 80
IN_SECONDS = (86_400, 3_600, 60, 1)
EFFORT = re.compile(r"[a-z][a-z0-9_-]{0,31}", re.ASCII)
VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,127}", re.ASCII)


class TomlTable(BaseModel):
    """A table of a TOML file. Unknown keys are refused; optional fields have a default."""

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
TABLE_TYPES = {"price": PriceTable | None, "policy_limits": LimitsTable}
"""The types of options whose value is a table."""


def create_table_model(name: str, options: Iterable[Option], **further: Any) -> type[TomlTable]:  # noqa: ANN401 - pydantic's
    """Return the pydantic model of a table with these options; ``further`` are additional pydantic fields."""
    model_fields: dict[str, Any] = {}
    inner: dict[str, list[Option]] = {}
    for option in options:
        if option.tables:
            inner.setdefault(option.tables[0], []).append(option)
        else:
            model_fields[option.key] = _field(option)
    model_fields |= further
    for title, inner_options in inner.items():
        inner_model = create_table_model(f"{name}.{title}", [option.in_table for option in inner_options])
        model_fields[title] = (inner_model, Field(default_factory=inner_model))
    return create_model(name, __base__=TomlTable, **model_fields)


def _field(option: Option) -> tuple[Any, Any]:
    kind, default = TABLE_TYPES.get(option.name, option.type), option.default
    if isinstance(kind, type) and issubclass(kind, TomlTable):
        return kind, Field(default_factory=kind)
    return kind, Field(default_factory=lambda: copy(default))


RunTable = create_table_model("Run", RUN_OPTIONS, task=(str, ...))
"""A run's TOML file. Paths are relative to the working directory."""


@dataclass(frozen=True, slots=True)
class RunConfig:
    """The configuration of a run."""

    task: Task
    agent: AgentConfig
    split: SplitSource = SplitSource.PRIVATE
    split_directory: Path | None = None
    """The directory of the cases, for a split of source ``directory``."""
    skill: Path | None = None
    """The directory of the skill that the agent is handed."""
    experiment: str = DEFAULT_EXPERIMENT
    """Runs of an experiment play the same cases."""
    nonce: str = ""
    """The nonce of a board; empty without one."""
    readable: str = ""
    """``group`` if the group may read the run directory; else empty."""
    seed: int = 0
    workers: int | None = None
    """How many episodes play in parallel; None for one per core."""
    runs: Path = DEFAULT_RUNS
    isolation: str = AUTO
    executor: str = LOCAL
    """Where episodes play. Like ``workers`` it isn't recorded, as results don't depend on it."""
    executor_address: str = ""
    track: str = ""
    """The tracker that the run is also logged to. Like ``workers`` it isn't recorded."""
    pinned: bool = True
    """Whether arithmetic is the same on every processor; False for older runs."""
    price: PriceSnapshot | None = None
    """The price of the agent's model, if the user gave it; otherwise it is looked up."""


def build_run_config(task: str, options: RunOptions) -> RunConfig:
    """Return the configuration of a run from all its options, defaults included.

    ``task`` is an environment's name, or the path of a spec's ``.toml`` file. Raises ``UsageError`` if an option is
    invalid.
    """
    source, directory = parse_split(options["split"])
    seed = options["seed"]
    if not 0 <= seed <= LARGEST_SEED:
        raise UsageError(f"Invalid seed: expected an integer from 0 to {LARGEST_SEED}, got {seed}.")
    _refuse_nonce(options["nonce"], source)
    environment, text = resolve_environment(task, TaskText(options["text"]), options["imports"], options["make"])
    if (world := resolve_world(task, options["world"])) is not None:
        environment = environment.in_world(world)
    skill = Path(options["skill"]) if options["skill"] else None
    identity = skill_identity(skill) if skill else ""
    options = {**options, "text": text.value, "world": world.name if world else STANDARD, "skill": identity}
    return RunConfig(
        task=Task(
            environment,
            BudgetRule(options["budget"], options["min_episodes"], options["max_episodes"], options["max_submissions"]),
            validation_cases=options["validation"],
            held_out_cases=options["held_out"],
            train_cases=options["train_cases"],
            limits=_limits(options["policy_limits"], world),
            feedback=FeedbackProfile(options["feedback"]),
            finish_allowed=options["finish"] or options["agent"] == SHELL,
            films=options["films"],
            policy_packages=normalise_names(named) if (named := options["policy_packages"]) else (),
            choices=changed_choices(options),
        ),
        agent=build_agent_config(options),
        split=source,
        split_directory=directory,
        skill=skill,
        experiment=options["experiment"],
        nonce=options["nonce"],
        readable=GROUP if options["readable"] == GROUP else "",
        seed=seed,
        workers=options["workers"],
        runs=Path(options["runs"]),
        isolation=str(Isolation(options["isolation"], parse_features(options["allow_missing"]))),
        executor=options["executor"],
        executor_address=options["address"],
        track=options["track"],
        price=price_snapshot(options),
    )


def resolve_run_config(
    task: str | Path | Maker | None,
    agent: str | AgentFunction | None,
    options: Mapping[str, Any],
    config: str | Path | None = None,
) -> tuple[RunConfig, Agent | None]:
    """Return the configuration of a run, and the agent if it is a function; raise ``UsageError``.

    ``config`` is a run's TOML file; the other arguments override it.
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
    if callable(task):
        document["task"], arguments, modules = reference_to(task)
        document["make"] = {**document.get("make", {}), **arguments}
        document["imports"] = [*document.get("imports", []), *modules]
        for module in (document["task"].rpartition(":")[0], *modules):
            catalog.hand_down(module)
    elif isinstance(task, str | Path):
        document["task"] = str(task)
    elif task is not None:
        raise UsageError(
            f"Invalid task: expected a name, a path, a class of environments or a function that returns one, got a "
            f"{type(task).__name__}. Example: run({type(task).__name__}), or run(lambda: ...) for arguments."
        )
    if "task" not in document:
        raise UsageError(
            'Missing TASK. Example: evopolicygym run acrobot, evopolicygym.run("acrobot"), or task = "acrobot" in a '
            "configuration file."
        )
    _refuse_other_names(document)
    run_config = decode_run_config(document, str(config or PYTHON))
    return run_config, FunctionAgent(function) if function else None


def decode_run_config(document: Mapping[str, Any], origin: str) -> RunConfig:
    """Return the run that a TOML document configures; a ``UsageError`` names the document's ``origin``."""
    table = decode_table(RunTable, document, origin).model_dump()
    return build_run_config(table["task"], cast("RunOptions", flatten_options(RUN_OPTIONS, table)))


def _limits(given: Mapping[str, float], world: World | None) -> Limits:
    """Return a policy's limits; a world's limit of an action replaces the default."""
    limits = Limits(**given)  # type: ignore[arg-type] # typed as they were decoded
    if world is None or world.act_ms is None:
        return limits
    if "act_s" in limits.changed:
        raise UsageError(
            f"--policy-limit act_s and the world {world.name!r}, which has act_ms = {world.act_ms:g}, are mutually "
            f"exclusive."
        )
    return replace(limits, act_s=world.act_ms / 1000)


def changed_choices(options: RunOptions) -> dict[str, Any]:
    """Return the non-default options that pooled runs must agree in and that a task has no attribute for."""
    values: Mapping[str, Any] = options
    return {
        option.name: values[option.name]
        for option in RUN_OPTIONS
        if option.comparability_label and not option.task_field and values[option.name] != option.default
    }


def build_agent_config(options: AgentOptions) -> AgentConfig:
    """Return the agent's configuration; raise ``UsageError`` if its options are invalid."""
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
    if secrets := [name for name in options["options"] if SECRET.search(name) and name != "model_key"]:
        raise UsageError(f"The option {secrets[0]} is not accepted. {NO_KEYS}")
    if label and (not label.isprintable() or label.isspace() or len(label) > LONGEST_LABEL):
        raise UsageError(
            f"Invalid label: expected 1 to {LONGEST_LABEL} printable characters, got "
            f"{printable(label[: 2 * LONGEST_LABEL])!r}."
        )
    endpoint = {"model_url": options["model_url"], "model_key": model_key, "model_wire": options["model_wire"]}
    extra = {**options["options"], **{name: text for name, text in endpoint.items() if text}}
    if options["interactive"]:
        extra[INTERACTIVE] = True
    allowance = build_allowance(options, COMMAND_S if name == COMMAND else None)
    return AgentConfig(name, options["model"], extra, absolutize_paths(command), effort, allowance, label)


def build_allowance(options: AgentOptions, seconds: float | None = None) -> Allowance:
    """Return the agent's limits; ``seconds`` is the default time limit."""
    if (limit := options["max_time"]) is not None:
        seconds = None if limit == UNLIMITED else parse_duration(limit)
    return Allowance(options["max_cost"], options["max_tokens"], seconds, options["max_turns"])


def price_snapshot(options: AgentOptions) -> PriceSnapshot | None:
    """Return the price that the user gave, or None."""
    if not (price := options["price"]):
        return None
    rates = Rates(price["input"], price["output"], price.get("cached_input"), price.get("cache_write"))
    return PriceSnapshot(options["model"], GIVEN, now(), rates)


def parse_duration(value: float | str) -> float:
    """Return the seconds of a number or of a text such as ``90``, ``45m``, ``2h30m`` or ``1d``."""
    text = str(value).strip()
    match = DURATION.fullmatch(text)
    if text and match:
        return float(sum(int(count or 0) * unit for count, unit in zip(match.groups(), IN_SECONDS, strict=True)))
    try:
        return float(text)
    except ValueError:
        raise UsageError(
            f"Invalid time: expected seconds, a text such as 90s, 45m, 2h30m or 1d, or {UNLIMITED} for no limit, got "
            f"{value!r}."
        ) from None


def absolutize_paths(command: Sequence[str]) -> tuple[str, ...]:
    """Return a command in which paths of existing files are absolute.

    The program starts in the run's workspace and can read only files that its command names by absolute path.
    """
    return tuple(_absolutize_word(word, is_program=index == 0) for index, word in enumerate(command))


def _absolutize_word(word: str, *, is_program: bool) -> str:
    path = Path(word)
    on_search_path = is_program and "/" not in word and shutil.which(word) is not None
    in_workspace = bool(path.parts) and path.parts[0] in IN_WORKSPACE
    if path.is_absolute() or on_search_path or in_workspace or not os.path.isfile(word):  # noqa: PTH113 - not a path
        return word
    return os.path.normpath(path.absolute())


def parse_split(name: str) -> tuple[SplitSource, Path | None]:
    """Return the source of cases that ``private``, ``public`` or an existing directory names."""
    if name in (SplitSource.PRIVATE, SplitSource.PUBLIC):
        return SplitSource(name), None
    directory = Path(name)
    if not directory.is_dir():
        raise UsageError(
            f"Invalid split {name!r}: expected private, public, or a directory with train.json, valid.json and "
            f"heldout.json."
        )
    return SplitSource.DIRECTORY, directory


def _refuse_nonce(nonce: str, split: SplitSource) -> None:
    """Raise ``UsageError`` for an invalid nonce, or one of a split whose cases are fixed."""
    if not nonce:
        return
    if not NONCE.fullmatch(nonce):
        raise UsageError(
            f"Invalid nonce: expected 1 to 100 letters, digits, '.', '_' and '-', got {printable(nonce[:120])!r}."
        )
    if split is not SplitSource.PRIVATE:
        raise UsageError(
            f"Invalid nonce: expected the private split, got a {split} one, whose cases are fixed. Leave out --nonce "
            f"or --split."
        )


def _refuse_other_names(document: Mapping[str, Any]) -> None:
    """Raise ``UsageError`` if the command is the name of an agent or of an environment instead of a program."""
    task, command = document["task"], (document.get("agent") or {}).get("command") or [""]
    name = command[0]
    if not name or shutil.which(name) or Path(name).exists():
        return
    if name in AGENTS.names():
        raise UsageError(
            f"There is no program {name!r} here. Did you mean the built-in agent? "
            f"evopolicygym run {shell_word(task)} --agent {shell_word(name)}"
        )
    if name in catalog.names():
        raise UsageError(
            f"A run plays one environment, got {task} and {name}. Run one: evopolicygym run {shell_word(name)}; "
            f"several: evopolicygym suite FILE (evopolicygym suites lists those that ship)."
        )


def _plain(value: Any) -> Any:  # noqa: ANN401 - any option's
    """Return a value as TOML represents it."""
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, np.generic):
        return value.item()
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value


def read_table(file: Path) -> dict[str, Any]:
    """Read a TOML file; raise ``UsageError`` if it can't be read."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"The configuration {file} can't be read: {error.strerror}.") from error
    except ValueError as error:  # of TOML as of UTF-8
        raise UsageError(f"Invalid configuration {file}: expected TOML: {error}.") from error


def merge_tables(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two tables recursively; ``above`` overrides ``below``."""
    result = dict(below)
    for name, value in above.items():
        current = result.get(name)
        are_tables = isinstance(value, Mapping) and isinstance(current, Mapping)
        result[name] = merge_tables(current, value) if are_tables else value  # type: ignore[arg-type]
    return result


def decode_table(kind: type[Decoded], document: Mapping[str, Any], origin: str) -> Decoded:
    """Decode a table; raise a ``UsageError`` that names its ``origin``, the problem and the expected value."""
    try:
        return decoder(kind).value(document)
    except Undecodable as error:
        raise UsageError(f"{origin}: {_describe_problem(kind, error.problems[0])}") from None


def _describe_problem(kind: type[TomlTable], problem: DecodingProblem) -> str:
    """Describe a problem without quoting the value, which might contain a key."""
    if problem.is_missing:
        return f"Missing {problem.where}."
    if not problem.is_unknown:
        return f"Invalid {problem.where}: {problem.message[:1].lower()}{problem.message[1:]}."
    *path, name = problem.path
    keys = f" {NO_KEYS}" if SECRET.search(name) else ""
    return f"Unknown key {problem.where}. Known: {', '.join(_key_names(kind, path))}.{keys}"


def _key_names(kind: type[TomlTable], path: list[str]) -> Iterator[str]:
    """Yield the keys of a nested table."""
    for step in path:
        field = kind.model_fields.get(step)
        inner = [field.annotation, *get_args(field.annotation)] if field else []
        kind = next((table for table in inner if isinstance(table, type) and issubclass(table, TomlTable)), kind)
    yield from kind.model_fields
