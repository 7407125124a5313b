"""A run as it is configured: by a TOML file, by arguments, or by both; and what its options come to, once decoded.

Which options there are is declared in ``core/run_options.py``; how a TOML file holds them, in ``tables.py``; where a
price comes from that nobody gave, in ``prices.py``.
"""

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from evopolicygym.agents.base import AGENTS
from evopolicygym.agents.kit.function_agent import NAME, AgentFunction, FunctionAgent, function_name
from evopolicygym.core.agent import IN_WORKSPACE, INTERACTIVE, SHELL, Agent, AgentConfig, Allowance
from evopolicygym.core.cases import SplitSource
from evopolicygym.core.clock import now
from evopolicygym.core.environment import TaskText
from evopolicygym.core.errors import UnknownName, UsageError
from evopolicygym.core.feedback import FeedbackProfile
from evopolicygym.core.isolation import written
from evopolicygym.core.option import flat, nested
from evopolicygym.core.places import DEFAULT_RUNS
from evopolicygym.core.price import PriceSnapshot, Rates
from evopolicygym.core.printable import printable
from evopolicygym.core.run_options import AUTO, COMMAND, DEFAULT_AGENT, LOCAL, RUN_OPTIONS, AgentOptions, RunOptions
from evopolicygym.core.task import BudgetRule, Limits, Task
from evopolicygym.core.task_options import DEFAULT_EXPERIMENT
from evopolicygym.runs.asked_environment import asked_environment
from evopolicygym.runs.tables import NO_KEYS, SECRET, decode, overlaid, read_table, table_of
from evopolicygym.sandbox.levels import waivable
from evopolicygym.sandbox.packages import normalised
from evopolicygym.specs import catalog

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
    """Return the run of a task with all options, as ``whole`` fills them in; raise ``UsageError`` where one is invalid.

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
        isolation=written(options["isolation"], waivable(options["waive"])),
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
    names = [one.name for one in RUN_OPTIONS]
    if unknown := sorted(options.keys() - set(names)):
        raise UnknownName("option of a run", unknown[0], names)
    given = {name: _plain(value) for name, value in options.items() if value is not None}
    function = agent if callable(agent) else None
    if function is not None:
        given = {"label": function_name(function), **given, "agent": NAME}
    elif agent is not None:
        given["agent"] = agent
    document = overlaid(read_table(Path(config)) if config else {}, nested(RUN_OPTIONS, given))
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
    return config_of(table["task"], whole(table))


def choices_of(options: RunOptions) -> dict[str, Any]:
    """Return the options that runs must agree in and that have no field of their own, where they aren't the default."""
    declared = [one for one in RUN_OPTIONS if one.option.compared_as and not one.option.held_as]
    values: Mapping[str, Any] = options
    return {one.name: values[one.name] for one in declared if values[one.name] != one.option.default}


def whole(document: Mapping[str, Any]) -> RunOptions:
    """Return the options that a decoded table holds."""
    return cast("RunOptions", flat(RUN_OPTIONS, document))


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
        raise UsageError(f"What model_key holds is no name of an environment variable. {NO_KEYS}")
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
    return AgentConfig(name, options["model"], extra, from_anywhere(command), effort, allowance, label)


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
