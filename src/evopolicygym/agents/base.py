"""Names, creates and lists agents. The contract itself is ``core.agent.Agent``.

An agent is a file of ``agents/builtin/`` that defines ``make(config) -> Agent`` and ``ABOUT``, an entry point of the
group ``evopolicygym.agents``, or ``package.module:function``. Listing agents runs no code of another package.
"""

import ast
import inspect
import logging
import os
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from pathlib import Path

from evopolicygym.core.agent import Agent, AgentConfig
from evopolicygym.core.errors import AgentError, EvoPolicyGymError, UsageError, described
from evopolicygym.core.registry import Registry

LOGGERS = ("evopolicygym.agents", "evopolicygym.model_proxy")
"""Loggers whose warnings the user should see during a run, such as that the model server fails."""
CONTRACT = "an object with max_turns, an integer from 1, and play(workspace, endpoint, stop)"
AGENTS = Registry(
    kind="agent",
    package="evopolicygym.agents.builtin",
    group="evopolicygym.agents",
    attribute="make",
    from_outside="make",
)
BUILT_IN = "built-in"


class Model(StrEnum):
    """Whether an agent uses a model."""

    NONE = "none"
    OPTIONAL = "optional"
    NEEDED = "needed"


@dataclass(frozen=True, slots=True)
class About:
    """A module's description of its agent."""

    summary: str
    """One line."""
    model: Model = Model.NONE
    program: str = ""
    """The command-line tool that it calls, looked up on the PATH; empty for none."""
    install: str = ""
    """The command that installs the tool."""
    extra: str = ""
    """The extra of this package that installs its dependencies; empty for none."""
    imports: tuple[str, ...] = ()
    """The modules that the extra must provide."""
    key: str = ""
    """The environment variable that holds the model server's key, unless ``--model-key`` names another."""
    url: str = ""
    """The address of its model server, unless ``--model-url`` names another; empty for none."""
    needs: str = ""
    """Further arguments that it requires, as typed on the command line."""


@contextmanager
def forward_warnings(on_note: Callable[[str], object]) -> Iterator[None]:
    """Call ``on_note``, from any thread, with each warning that an agent or its model proxy logs in the block."""

    class Notes(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            try:
                on_note(record.getMessage())
            except Exception:  # noqa: BLE001 - as in logging: a failing handler must not end the caller
                self.handleError(record)

    notes = Notes(logging.WARNING)
    loggers = [logging.getLogger(name) for name in LOGGERS]
    for logger in loggers:
        logger.addHandler(notes)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(notes)


def refuse_choices(config: AgentConfig) -> None:
    """Raise ``UsageError`` if a config sets an option, a model or an effort for an agent that has none of these."""
    settings = {"model": config.model, "effort": config.effort}
    given = {**config.options, **{name: value for name, value in settings.items() if value}}
    if given:
        raise UsageError(
            f"{config.name} has no option {next(iter(given))!r}: it has no options and uses no model. To give your own "
            f"program a model: evopolicygym run TASK --model-url URL -- PROGRAM"
        )


def refuse_effort(config: AgentConfig, known: Collection[str] | None) -> None:
    """Raise ``UsageError`` if an agent doesn't support the effort in its config.

    ``known`` is None for an agent without an effort setting, and empty if the model server validates the value.
    """
    if not config.effort or (known is not None and (not known or config.effort in known)):
        return
    expected = f"expected one of {', '.join(known)}" if known else "it has no such setting; leave --effort out"
    raise UsageError(f"Invalid effort {config.effort!r} for the agent {config.name!r}: {expected}.")


def model_address(config: AgentConfig) -> str:
    """Return the address of an agent's model server without making the agent, which may need a key; empty if unknown.

    Of agents of other packages only what the user gave is known: their code runs in the process of a run alone.
    """
    given = str(config.options.get("model_url", ""))
    if given or not config.model or not is_built_in(config.name):
        return given
    about: About = import_module(f"{AGENTS.package}.{config.name}").ABOUT
    return about.url


def is_built_in(name: str) -> bool:
    """Return whether an agent is part of this package."""
    return name in AGENTS.names() and name not in AGENTS.installed()


def make(config: AgentConfig) -> Agent:
    """Return the agent that a config names.

    Raises ``UnknownName``, ``MissingExtra`` or ``UsageError``, and ``AgentError`` if its factory fails or returns
    something else.
    """
    factory = AGENTS.load(config.name)
    try:
        agent: Agent = factory(config)
    except EvoPolicyGymError:
        raise
    except Exception as error:
        raise AgentError(f"The agent {config.name!r} can't be created: {described(error)}.") from error
    if problem := _contract_problem(agent):
        raise AgentError(f"Invalid agent {config.name!r}: expected make(config) to return {CONTRACT}, got {problem}.")
    return agent


def _contract_problem(agent: object) -> str:
    """Return why an object is not an agent; empty if it is one."""
    if agent is None:
        return "None"
    play, max_turns = getattr(agent, "play", None), getattr(agent, "max_turns", None)
    if not callable(play):
        return f"a {type(agent).__name__!r} object without play"
    if type(max_turns) is not int or max_turns < 1:
        return f"a {type(agent).__name__!r} object whose max_turns is {max_turns!r}"
    try:
        signature = inspect.signature(play)
    except (TypeError, ValueError):
        return ""
    try:
        signature.bind(None, None, None)
    except TypeError:
        return f"a {type(agent).__name__!r} object with play{signature}"
    return ""


@dataclass(frozen=True, slots=True)
class AgentListing:
    """An agent and its availability on this machine."""

    name: str
    source: str
    """``built-in``, or the distribution that provides it, as ``name version``."""
    about: About
    program_path: str | None = None
    """The path of its command-line tool; None if not found."""
    extra_installed: bool = True
    key_set: bool = False

    @property
    def is_built_in(self) -> bool:
        """Whether it is part of this package; of others, only a line is known."""
        return self.source == BUILT_IN

    @property
    def missing(self) -> tuple[str, ...]:
        """Its tool and its extra, if not found. Keys are not checked: another variable may hold one."""
        no_program = self.about.program and self.program_path is None
        return (
            *((self.about.program,) if no_program else ()),
            *((f"evopolicygym[{self.about.extra}]",) if not self.extra_installed else ()),
        )


def agent_listings() -> Iterator[AgentListing]:
    """Yield every agent with a name, sorted; of those of other distributions no code is run."""
    installed = AGENTS.installed()
    for name in AGENTS.names():
        yield _describe_outside(installed[name]) if name in installed else _describe_built_in(name)


def _describe_built_in(name: str) -> AgentListing:
    about: About = import_module(f"{AGENTS.package}.{name}").ABOUT
    return AgentListing(
        name,
        BUILT_IN,
        about,
        program_path=shutil.which(about.program) if about.program else None,
        extra_installed=all(find_spec(module) is not None for module in about.imports),
        key_set=bool(about.key and os.environ.get(about.key)),
    )


def _describe_outside(point: EntryPoint) -> AgentListing:
    summary = _summary_in_source(point.module)
    if point.dist is None:
        return AgentListing(point.name, "another package", About(summary or point.value))
    metadata = point.dist.metadata.get_all("Summary", [point.value])[0]
    return AgentListing(point.name, f"{point.dist.name} {point.dist.version}", About(summary or metadata))


def _summary_in_source(module: str) -> str:
    """Return the text of a module's ``ABOUT = About("…")`` without running any code; empty if there is none."""
    search_path = None
    spec = None
    for name in module.split("."):
        spec = PathFinder.find_spec(name, search_path)
        search_path = spec.submodule_search_locations if spec else ()
    try:
        tree = ast.parse(Path(spec.origin).read_bytes() if spec and spec.origin else b"")
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    for node in tree.body:
        match node:
            case ast.Assign(
                targets=[ast.Name(id="ABOUT")],
                value=ast.Call(args=[ast.Constant(value=str(text)), *_])
                | ast.Call(args=[], keywords=[ast.keyword(arg="summary", value=ast.Constant(value=str(text))), *_]),
            ):
                return text
    return ""
