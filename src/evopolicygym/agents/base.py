"""How an agent is named, made and described. The contract itself is ``core.agent.Agent``.

An agent is one file of ``agents/builtin/`` that defines ``make(config) -> Agent`` and ``ABOUT``, an entry point of the
group ``evopolicygym.agents``, or ``package.module:function``. To list agents runs nothing of another package.
"""

import inspect
import logging
import os
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from importlib.metadata import EntryPoint
from importlib.util import find_spec

from evopolicygym.core.agent import Agent, AgentConfig
from evopolicygym.core.errors import AgentError, EvoPolicyGymError, UsageError, described
from evopolicygym.core.registry import Registry

LOGGERS = ("evopolicygym.agents", "evopolicygym.model_proxy")
"""By which is logged what a person should know of an agent at work, such as that its model's server fails."""
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
    """Whether an agent asks a model."""

    NONE = "none"
    OPTIONAL = "optional"
    NEEDED = "needed"


@dataclass(frozen=True, slots=True)
class About:
    """What a module says of its agent."""

    summary: str
    """What it is, in a line."""
    model: Model = Model.NONE
    program: str = ""
    """The command-line tool that it calls, as found on the PATH; empty for none."""
    install: str = ""
    """The command that installs the tool."""
    extra: str = ""
    """The extra of this package that brings what it imports; empty for none."""
    imports: tuple[str, ...] = ()
    """The modules that the extra has to bring."""
    key: str = ""
    """The environment variable that holds the key of its model's server, unless ``--model-key`` names another."""
    needs: str = ""
    """What it has to be given besides, as it is typed."""


@contextmanager
def warnings_passed_on(on_note: Callable[[str], object]) -> Iterator[None]:
    """Have ``on_note`` called, from any thread, with each warning that an agent or its model's proxy logs meanwhile."""

    class Notes(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            try:
                on_note(record.getMessage())
            except Exception:  # noqa: BLE001 - logging's own way: no failure of whoever listens ends who logs
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
    """Raise ``UsageError`` where a config chooses something for an agent that leaves nothing to choose."""
    words = {"model": config.model, "effort": config.effort}
    given = {**config.options, **{name: word for name, word in words.items() if word}}
    if given:
        raise UsageError(
            f"{config.name} has no option {next(iter(given))!r} (it has none, and asks no model). A program of yours "
            f"can have a model: evopolicygym run TASK --model-url URL -- PROGRAM"
        )


def refuse_effort(config: AgentConfig, known: Collection[str] | None) -> None:
    """Raise ``UsageError`` where a config asks for an effort that an agent has no setting for.

    ``known`` is None for an agent without one, and empty where the model's server decides which words there are.
    """
    if not config.effort or (known is not None and (not known or config.effort in known)):
        return
    can = f"it knows {', '.join(known)}" if known else "it has no setting for that; leave --effort out"
    raise UsageError(f"The agent {config.name!r} can't be given the effort {config.effort!r}: {can}.")


def make(config: AgentConfig) -> Agent:
    """Return the agent that a config names.

    Raises ``UnknownName``, ``MissingExtra`` or ``UsageError``, and ``AgentError`` where what makes it fails, or makes
    something else.
    """
    factory = AGENTS.load(config.name)
    try:
        agent: Agent = factory(config)
    except EvoPolicyGymError:
        raise
    except Exception as error:
        raise AgentError(f"The agent {config.name!r} can't be made: {described(error)}.") from error
    if problem := _contract_problem(agent):
        raise AgentError(f"Invalid agent {config.name!r}: expected make(config) to return {CONTRACT}, got {problem}.")
    return agent


def _contract_problem(agent: object) -> str:
    """Return what keeps something from being an agent; empty where nothing does."""
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
    """One agent, as it stands on this machine."""

    name: str
    source: str
    """``built-in``, or the distribution that brings it, as ``name version``."""
    about: About
    program_path: str | None = None
    """Where its command-line tool was found."""
    extra_installed: bool = True
    key_set: bool = False

    @property
    def is_built_in(self) -> bool:
        """Whether it comes with this package; of others no more is known than their metadata."""
        return self.source == BUILT_IN

    @property
    def missing(self) -> tuple[str, ...]:
        """What it needs and what was not found: its tool, its extra. A key may be another's, or none be needed."""
        no_program = self.about.program and self.program_path is None
        return (
            *((self.about.program,) if no_program else ()),
            *((f"evopolicygym[{self.about.extra}]",) if not self.extra_installed else ()),
        )


def agent_listings() -> Iterator[AgentListing]:
    """Yield every agent that answers to a name, sorted; those of other distributions by what their metadata says."""
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
    if point.dist is None:
        return AgentListing(point.name, "another package", About(point.value))
    summary = point.dist.metadata.get_all("Summary", [point.value])[0]
    return AgentListing(point.name, f"{point.dist.name} {point.dist.version}", About(summary))
