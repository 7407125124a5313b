"""Published results that ship as data: tables that are ranked with runs, and figures of other protocols.

A shipped table is a file in ``data/``, and its name is the file's. ``NAME.toml`` holds means as they were published.
``NAME.jsonl`` holds runs: the ``run.json`` of one run a line, below a first line with ``source`` and ``kind``.

A file of ``data/other_protocol/`` holds figures that others published under their own protocol, with how that protocol
differs. They are not entries: they are shown, but never ranked, used to normalise, or paired with a run.
"""

import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from evopolicygym.analysis.results import result_of
from evopolicygym.core.decoding import decoder
from evopolicygym.core.errors import UnknownName, UsageError
from evopolicygym.core.options import RUN_OPTIONS
from evopolicygym.core.task import EnvironmentSpec, TaskKind
from evopolicygym.records.checked import CheckedRun, RecordState
from evopolicygym.records.rows import RunRow
from evopolicygym.records.run_document import decode
from evopolicygym.specs.identity import EnvironmentIdentity, environment_identity, shipped_identity

OURS = {option.name: option.default for option in RUN_OPTIONS if option.name in {"budget", "validation", "held_out"}}
"""The defaults of our protocol, which are the paper's."""
HOUR_S = 3600


@dataclass(frozen=True, slots=True)
class OtherProtocol:
    """The protocol of published figures; None if a value was not stated, or not limited."""

    budget: int
    """Train episodes of a run."""
    held_out: int
    """Episodes that score it."""
    validation: int | None = None
    """Episodes of each candidate by which the best is selected."""
    max_episodes: int | None = None
    """Limit on the episodes of a submission."""
    max_submissions: int | None = None
    agent_s: int | None = None
    """Limit on the agent's seconds."""
    details: str = ""
    """Other properties that were stated."""

    @property
    def differences(self) -> tuple[str, ...]:
        """How it differs from our protocol, in a few words each."""
        return tuple(self._differences())

    def _differences(self) -> Iterator[str]:
        if self.budget != OURS["budget"]:
            yield f"{self.budget} train episodes (ours {OURS['budget']})"
        if self.validation is None:
            yield f"validation not stated (ours {OURS['validation']})"
        elif self.validation != OURS["validation"]:
            yield f"{self.validation} validation (ours {OURS['validation']})"
        if self.held_out != OURS["held_out"]:
            yield f"{self.held_out} held-out (ours {OURS['held_out']})"
        if self.max_episodes is not None and self.max_episodes < self.budget:
            yield f"at most {self.max_episodes} episodes a submission"
        if self.max_submissions is not None and self.max_submissions < self.budget:
            yield f"at most {self.max_submissions} submissions"
        if self.agent_s is not None:
            yield f"at most {self.agent_s / HOUR_S:g} h"
        if self.details:
            yield self.details


@dataclass(frozen=True, slots=True)
class PublishedFigure:
    """One entry's mean on one task."""

    entry: str
    score: float
    """Mean over held-out episodes; its standard error was not published."""
    effort: str = ""

    @property
    def label(self) -> str:
        """The entry with its reasoning effort."""
        return f"{self.entry}, {self.effort}" if self.effort else self.entry


@dataclass(frozen=True, slots=True)
class FiguresOfTask:
    """The published figures of a task."""

    suite: str
    name: str
    """The name that its publisher uses."""
    metric: str
    protocol: OtherProtocol
    figures: tuple[PublishedFigure, ...]
    id: str = ""
    """Its gymnasium id, as far as the name determines it; the limit on steps may differ from ours."""

    @property
    def best(self) -> PublishedFigure:
        """The entry with the highest mean."""
        return max(self.figures, key=lambda figure: figure.score)


@dataclass(frozen=True, slots=True)
class OtherFigures:
    """Figures of one source."""

    source: str
    date: str
    version: str
    """The version of the source, such as a commit."""
    tasks: tuple[FiguresOfTask, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes for readers."""
        return (self._how_made, "Published without standard errors: how far another run would differ is not known.")

    @property
    def _how_made(self) -> str:
        return (
            f"Published elsewhere ({self.source}, {self.date}), under other protocols than ours, with texts and "
            "versions of their own: these figures are never ranked, nor are scores normalised by them."
        )

    def of_id(self, gymnasium_id: str) -> FiguresOfTask | None:
        """Return the published figures of an environment; None if there are none."""
        return next((task for task in self.tasks if task.id and task.id == gymnasium_id), None)

    def narrowed(self, gymnasium_ids: Iterable[str]) -> "OtherFigures":
        """Return only the figures of some environments."""
        wanted = set(gymnasium_ids)
        kept = tuple(task for task in self.tasks if task.id and task.id in wanted)
        return OtherFigures(self.source, self.date, self.version, kept)


def other_names() -> list[str]:
    """Return the names of all sets of figures."""
    return sorted(_other_protocol_files())


@cache
def other_figures(name: str) -> OtherFigures:
    """Return the figures of a name; raise ``UnknownName`` if there are none."""
    if name not in (paths := _other_protocol_files()):
        raise UnknownName("set of published figures", name, paths)
    return decoder(OtherFigures).value(tomllib.loads(paths[name].read_text(encoding="utf-8")))


def _other_protocol_files() -> dict[str, Traversable]:
    data = files("evopolicygym.analysis.published") / "data" / "other_protocol"
    return {Path(file.name).stem: file for file in data.iterdir() if file.name.endswith(".toml")}


AGENT, ANCHOR = "agent", "anchor"


@dataclass(frozen=True, slots=True)
class PublishedTask:
    """The properties of a task in a table."""

    family: str
    kind: TaskKind
    environment: EnvironmentIdentity
    """The environment that its name stands for; runs of another under this name don't belong to the table."""


@dataclass(frozen=True, slots=True)
class PublishedEntry:
    """One row of a published table."""

    name: str
    kind: str
    """``agent``, ``anchor`` for uniform random actions, or another word such as ``reference``."""
    scores: dict[str, float]
    """Mean held-out return by environment."""
    standard_errors: dict[str, float] = field(default_factory=dict)
    """The standard errors by environment; empty if none were published."""
    success_rates: dict[str, float] = field(default_factory=dict)
    """The success rates by environment, of those that know success; empty if none were published."""


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A table of scores: entries with means only, or runs."""

    source: str
    entries: tuple[PublishedEntry, ...]
    tasks: Mapping[str, PublishedTask] = field(default_factory=dict)
    kind: str = AGENT
    """The kind of all entries of the runs."""
    runs: tuple[RunRow, ...] = ()
    text: str = ""
    """The text of the tasks that its agents read; empty if the runs record it, or no agent read any."""

    def scores(self, environment: str) -> dict[str, float]:
        """Return every entry's score on one environment, by the entry's name; empty if it was not played."""
        return {entry.name: entry.scores[environment] for entry in self.entries if environment in entry.scores}

    def scores_on(self, spec: EnvironmentSpec) -> dict[str, float]:
        """Return every entry's score on a spec's environment; empty if the table lacks it, or has another."""
        return self.scores(spec.name) if self.has(spec.name, environment_identity(spec)) else {}

    def has(self, task: str, environment: EnvironmentIdentity) -> bool:
        """Whether this is what the table means by a task's name."""
        published = self.tasks.get(task)
        return published is not None and published.environment.is_same(environment)


def shipped_names() -> list[str]:
    """Return the names of all shipped tables."""
    return sorted(_files())


@cache
def shipped(name: str) -> PublishedTable:
    """Return a shipped table; raise ``UnknownName`` if there is none of this name.

    Raises ``UsageError`` for figures of another protocol.
    """
    file = _files().get(name)
    if name in other_names():
        raise UsageError(
            f"{name} is not a table of entries: its figures were made under other protocols, so they are neither "
            f"ranked nor compared with runs. Use leaderboard --tables {name} or headroom --tables {name}."
        )
    if file is None:
        raise UnknownName("shipped table", name, shipped_names())
    text = file.read_text(encoding="utf-8")
    return _read_means(tomllib.loads(text)) if file.name.endswith(".toml") else _read_runs(name, text)


def paper() -> PublishedTable:
    """Return the paper's table: four agents and uniform random on Core16."""
    return shipped("paper")


def _files() -> dict[str, Traversable]:
    data = files("evopolicygym.analysis.published") / "data"
    return {Path(file.name).stem: file for file in data.iterdir() if Path(file.name).suffix in {".toml", ".jsonl"}}


def _read_means(document: Mapping[str, Any]) -> PublishedTable:
    tasks = {
        task: PublishedTask(figures["family"], TaskKind(figures["kind"]), shipped_identity(task))
        for task, figures in document["tasks"].items()
    }
    entries = tuple(PublishedEntry(**entry) for entry in document["entries"])
    return PublishedTable(document["source"], entries, tasks, text=document.get("text", ""))


def _read_runs(name: str, text: str) -> PublishedTable:
    first, *documents = text.splitlines()
    about = json.loads(first)
    runs = tuple(
        result_of(CheckedRun(Path(f"{name}.jsonl", str(number)), decode(document), RecordState.SHIPPED))
        for number, document in enumerate(documents, 1)
    )
    tasks = {run.task: PublishedTask(run.family, run.kind or TaskKind.UNKNOWN, run.environment) for run in runs}
    return PublishedTable(about["source"], (), tasks, about["kind"], runs)


@dataclass(frozen=True, slots=True)
class PublishedData:
    """The published results to show with runs."""

    tables: tuple[PublishedTable, ...]
    figures: tuple[OtherFigures, ...]
    """The figures of other protocols, which are shown in separate tables."""

    @property
    def ids(self) -> dict[str, str]:
        """The gymnasium ids of the tables' tasks, by name."""
        return {name: task.environment.id for table in self.tables for name, task in table.tasks.items()}


def load_published(names: Sequence[str]) -> PublishedData:
    """Return the published results of some names; raise ``UnknownName`` for an unknown name."""
    tables, others = shipped_names(), other_names()
    for name in names:
        if name not in (known := sorted([*tables, *others])):
            raise UnknownName("shipped table", name, known)
    return PublishedData(
        tuple(shipped(name) for name in names if name in tables),
        tuple(other_figures(name) for name in names if name in others),
    )
