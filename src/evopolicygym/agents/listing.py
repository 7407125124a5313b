"""The agents that can be named here, with what they need and what of it is missing. Nothing of another package runs."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint
from importlib.util import find_spec

from evopolicygym.agents.base import AGENTS
from evopolicygym.agents.kit.about import About

BUILT_IN = "built-in"


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


def listed() -> Iterator[AgentListing]:
    """Yield every agent that answers to a name, sorted; those of other distributions by what their metadata says."""
    installed = AGENTS.installed()
    for name in AGENTS.names():
        yield _from_outside(installed[name]) if name in installed else _built_in(name)


def _built_in(name: str) -> AgentListing:
    about: About = import_module(f"{AGENTS.package}.{name}").ABOUT
    return AgentListing(
        name,
        BUILT_IN,
        about,
        program_path=shutil.which(about.program) if about.program else None,
        extra_installed=all(find_spec(module) is not None for module in about.imports),
        key_set=bool(about.key and os.environ.get(about.key)),
    )


def _from_outside(point: EntryPoint) -> AgentListing:
    if point.dist is None:
        return AgentListing(point.name, "another package", About(point.value))
    summary = point.dist.metadata.get_all("Summary", [point.value])[0]
    return AgentListing(point.name, f"{point.dist.name} {point.dist.version}", About(summary))
