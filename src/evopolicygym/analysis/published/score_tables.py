"""Tables that are shipped as data with their source: what others have published, and what was measured here once.

A shipped table is a file in ``data/``, and its name is the file's. ``NAME.toml`` holds means as they were published.
``NAME.jsonl`` holds runs: the ``run.json`` of one a line, below a first line with ``source`` and ``kind``.
"""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from evopolicygym.analysis.published.other_protocol import other_names
from evopolicygym.analysis.results import RunResult, result_of
from evopolicygym.core.errors import UnknownName, UsageError
from evopolicygym.core.task import EnvironmentSpec, TaskKind
from evopolicygym.records.run_document import decode
from evopolicygym.specs.catalog import GameIdentity, game_named, game_of

AGENT, ANCHOR = "agent", "anchor"


@dataclass(frozen=True, slots=True)
class PublishedTask:
    """What a table says of a task besides its scores."""

    family: str
    kind: TaskKind
    game: GameIdentity
    """What its name stands for; runs of another game under this name have nothing to do with the table."""


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
    success_rates: dict[str, float] = field(default_factory=dict)
    """By environment, of those that know success; empty where none were published."""


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A table of scores: entries with means only, or runs."""

    source: str
    entries: tuple[PublishedEntry, ...]
    tasks: Mapping[str, PublishedTask] = field(default_factory=dict)
    kind: str = AGENT
    """Of all entries that the runs make."""
    runs: tuple[RunResult, ...] = ()
    text: str = ""
    """Which text of the tasks its agents read; empty where the runs tell it, or nobody read any."""

    def scores(self, environment: str) -> dict[str, float]:
        """Return every entry's score on one environment, by the entry's name; empty where it was not played."""
        return {one.name: one.scores[environment] for one in self.entries if environment in one.scores}

    def scores_on(self, spec: EnvironmentSpec) -> dict[str, float]:
        """Return every entry's score on what a spec has played; empty where the table has it not, or another game."""
        return self.scores(spec.name) if self.has(spec.name, game_of(spec)) else {}

    def has(self, environment: str, game: GameIdentity) -> bool:
        """Whether this is what the table means by an environment's name."""
        task = self.tasks.get(environment)
        return task is not None and task.game.is_same(game)


def shipped_names() -> list[str]:
    """Return the names of all shipped tables."""
    return sorted(_files())


@cache
def shipped(name: str) -> PublishedTable:
    """Return a shipped table; raise ``UnknownName`` where there is none of this name.

    Raises ``UsageError`` for figures of another protocol.
    """
    file = _files().get(name)
    if name in other_names():
        raise UsageError(
            f"{name} is no table of entries here: its figures were made under other protocols, so they are neither "
            f"ranked nor compared with runs. What works: leaderboard --with {name}, headroom --with {name}."
        )
    if file is None:
        raise UnknownName("shipped table", name, shipped_names())
    text = file.read_text(encoding="utf-8")
    return _of_means(tomllib.loads(text)) if file.name.endswith(".toml") else _of_runs(name, text)


def paper() -> PublishedTable:
    """Return the paper's table: four agents and uniform random on Core16."""
    return shipped("paper")


def _files() -> dict[str, Traversable]:
    data = files("evopolicygym.analysis.published") / "data"
    return {Path(file.name).stem: file for file in data.iterdir() if Path(file.name).suffix in {".toml", ".jsonl"}}


def _of_means(document: Mapping[str, Any]) -> PublishedTable:
    tasks = {
        task: PublishedTask(one["family"], TaskKind(one["kind"]), game_named(task))
        for task, one in document["tasks"].items()
    }
    entries = tuple(PublishedEntry(**one) for one in document["entries"])
    return PublishedTable(document["source"], entries, tasks, text=document.get("text", ""))


def _of_runs(name: str, text: str) -> PublishedTable:
    first, *documents = text.splitlines()
    about = json.loads(first)
    runs = tuple(
        result_of(decode(document), Path(f"{name}.jsonl", str(place))) for place, document in enumerate(documents, 1)
    )
    tasks = {run.task: PublishedTask(run.family, run.kind, run.game) for run in runs}
    return PublishedTable(about["source"], (), tasks, about["kind"], runs)
