"""The arguments of ``evopolicygym.run``, as a run is configured by them."""

import hashlib
import inspect
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from evopolicygym.agents.base import AGENTS
from evopolicygym.agents.kit.function_agent import NAME, AgentFunction, FunctionAgent, function_name
from evopolicygym.core.agent import Agent
from evopolicygym.core.errors import UnknownName, UsageError
from evopolicygym.core.option import nested
from evopolicygym.core.run_options import RUN_OPTIONS
from evopolicygym.runs.config import RunConfig, configured_run
from evopolicygym.runs.tables import overlaid, read_table
from evopolicygym.specs import catalog

ORIGIN = "evopolicygym.run"


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
            'Which environment is to be played? evopolicygym run TASK, evopolicygym.run("TASK") or task = "TASK" in a '
            "configuration file names it."
        )
    _refuse_other_names(document)
    found = configured_run(document, str(config or ORIGIN))
    if function is None:
        return found, None
    return replace(found, agent=replace(found.agent, program_sha256=_source_sha256(function))), FunctionAgent(function)


def _refuse_other_names(document: Mapping[str, Any]) -> None:
    """Raise ``UsageError`` for a command that is the name of an agent or an environment, and no program."""
    task, command = document["task"], (document.get("agent") or {}).get("command") or [""]
    name = command[0]
    if not name or shutil.which(name) or Path(name).exists():
        return
    if name in AGENTS.names():
        raise UsageError(
            f"The program {name!r} was asked for as the agent, and there is none here; did you mean --agent {name}? "
            f"evopolicygym run {task} --agent {name} plays with ours, and a program of yours stands after --."
        )
    if name in catalog.names():
        raise UsageError(
            f"The environments {task} and {name} were asked for, and a run plays one: evopolicygym run {name}. A suite "
            f"plays many: evopolicygym suite FILE; evopolicygym suites lists those that ship."
        )


def _plain(value: Any) -> Any:  # noqa: ANN401 - any option's
    """Return a value as a TOML file would hold it."""
    if isinstance(value, Path):
        return str(value)
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value


def _source_sha256(function: AgentFunction) -> str:
    """Return the hash of a function's source; empty where Python knows none, as of what was typed at a prompt."""
    try:
        return hashlib.sha256(inspect.getsource(function).encode()).hexdigest()
    except (OSError, TypeError):
        return ""
