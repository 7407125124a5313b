"""Tables of scores that are shipped as data with their source: what others have published, and what was measured once.

A shipped table is a file in ``data/``, and its name is the file's.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from evopolicygym.core.environment import Kind
from evopolicygym.core.errors import UnknownName

AGENT, ANCHOR = "agent", "anchor"


@dataclass(frozen=True, slots=True)
class PublishedTask:
    """What a table says of a task besides its scores."""

    family: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class PublishedEntry:
    """One row of a published table."""

    name: str
    kind: str
    """``agent``, ``anchor`` for uniform random actions, or another word such as ``reference``."""
    scores: dict[str, float]
    """Mean held-out return by environment."""
    standard_errors: dict[str, float] = field(default_factory=dict)
    """By environment; empty where none were published."""


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A table of scores."""

    source: str
    cases: int
    """Held-out cases behind each mean."""
    entries: tuple[PublishedEntry, ...]
    tasks: Mapping[str, PublishedTask] = field(default_factory=dict)

    def scores(self, environment: str) -> dict[str, float]:
        """Return every entry's score on one environment, by the entry's name; empty where it was not played."""
        return {one.name: one.scores[environment] for one in self.entries if environment in one.scores}


def shipped_names() -> list[str]:
    """Return the names of all shipped tables."""
    data = files("evopolicygym.analysis") / "data"
    return sorted(file.name.removesuffix(".toml") for file in data.iterdir() if file.name.endswith(".toml"))


@cache
def shipped(name: str) -> PublishedTable:
    """Return a shipped table; raise ``UnknownName`` where there is none of this name."""
    if name not in shipped_names():
        raise UnknownName("shipped table", name, shipped_names())
    text = (files("evopolicygym.analysis") / "data" / f"{name}.toml").read_text(encoding="utf-8")
    document = tomllib.loads(text)
    tasks = {task: PublishedTask(one["family"], Kind(one["kind"])) for task, one in document["tasks"].items()}
    return PublishedTable(document["source"], document["cases"], tuple(map(_entry, document["entries"])), tasks)


def _entry(document: Mapping[str, Any]) -> PublishedEntry:
    return PublishedEntry(document["name"], document["kind"], document["scores"], document.get("standard_errors", {}))


def paper() -> PublishedTable:
    """Return the paper's table: four agents and uniform random on Core16."""
    return shipped("paper")
