"""Evaluations of agents for formats of common results: the runs of an agent under one protocol, by task.

Runs are combined if the agent, its model and all settings that change the measurement are the same.
"""

import re
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import ClassVar

from evopolicygym.analysis.ranking.comparability import COMPARED, property_of
from evopolicygym.analysis.run_tables import RunTables
from evopolicygym.core.score import Estimate, estimate
from evopolicygym.export.exporters import BaseExporter, WrittenFile
from evopolicygym.records.rows import RunRow

OF_THE_TASK = frozenset({"commitment", "versions", "simulator_code", "task_fingerprint"})
"""Properties of a run's task and cases, which may differ between the combined runs."""
SETTINGS = (*(name for name in COMPARED if name not in OF_THE_TASK), "isolation", "split")
"""Properties besides the agent's that must agree in combined runs."""


@dataclass(frozen=True, slots=True)
class AgentEntry:
    """An agent and its settings."""

    agent: str
    """Its user's name for it."""
    harness: str
    model: str
    """Name of its model; empty without a model."""
    effort: str
    settings: tuple[tuple[str, str], ...]
    """Names and values of ``SETTINGS``."""

    @property
    def model_id(self) -> str:
        """``DEVELOPER/MODEL``, as a path; an agent without a model is a model of ``evopolicygym``."""
        developer, _, model = self.model.rpartition("/")
        if not self.model:
            developer, model = "evopolicygym", self.agent
        return f"{'/'.join(map(path_part, filter(None, developer.split('/')))) or 'unknown'}/{path_part(model)}"


@dataclass(slots=True)
class TaskEvaluation:
    """One agent's finished runs of one task."""

    row: RunRow
    """The first of them."""
    runs: list[RunRow] = field(default_factory=list)

    @property
    def returns(self) -> Estimate:
        """Mean held-out return; its error is over runs, or over the cases of a single run."""
        if len(self.runs) == 1:
            return Estimate(self.row.score or 0.0, self.row.score_standard_error, self.row.held_out_cases or 0)
        return estimate([row.score for row in self.runs if row.score is not None])

    @property
    def normalised(self) -> Estimate | None:
        """The same from 0 (random) to 1 (reference), clipped; None if the task lacks an anchor."""
        row = self.row
        if row.normalised is None or row.random_anchor is None or row.reference_anchor is None:
            return None
        if len(self.runs) == 1:
            error, scale = row.score_standard_error, row.reference_anchor.mean - row.random_anchor.mean
            return Estimate(row.normalised, None if error is None else error / scale, row.held_out_cases or 0)
        return estimate([run.normalised for run in self.runs if run.normalised is not None])

    @property
    def success(self) -> Estimate | None:
        """Share of held-out episodes that succeeded; None for a task without success."""
        rates = [row.success_rate for row in self.runs if row.success_rate is not None]
        return estimate(rates) if rates else None

    @property
    def finished(self) -> datetime:
        """Time at which the last run finished."""
        return max(row.finished_at for row in self.runs if row.finished_at)


class EvaluationsExporter(BaseExporter):
    """Writes a file for each agent; runs without a score are reported in a note."""

    tables: ClassVar[tuple[str, ...]] = ()

    def __init__(self, directory: Path, tables: Sequence[str]) -> None:
        super().__init__(directory, tables)
        self._evaluations: dict[tuple[AgentEntry, str], TaskEvaluation] = {}

    @abstractmethod
    def write(self, entry: AgentEntry, tasks: list[TaskEvaluation]) -> WrittenFile | None:
        """Write an agent's evaluations; return None if the format doesn't cover them."""

    def add(self, run: RunTables) -> None:
        """Add a run to its agent's evaluations."""
        row = run.row
        if row.score is None or row.finished_at is None:
            self.notes.append(f"{row.run_id} is left out: it has no score ({row.status or row.stage}).")
            return
        if row.is_release:
            self.notes.append(f"{row.run_id} is left out: it was played by the paper's release, whose task is unknown.")
            return
        self._evaluations.setdefault((entry_of(row), row.task), TaskEvaluation(row)).runs.append(row)

    def finish(self) -> list[WrittenFile]:
        """Write all files."""
        return list(filter(None, (self.write(entry, tasks) for entry, tasks in self._entries())))

    def abort(self) -> None:
        """Nothing is written before the end."""

    def _entries(self) -> Iterator[tuple[AgentEntry, list[TaskEvaluation]]]:
        def sort_key(pair: tuple[AgentEntry, str]) -> tuple[object, ...]:
            entry, task = pair
            return entry.agent, entry.harness, entry.model, entry.effort, entry.settings, task

        for entry, pairs in groupby(sorted(self._evaluations, key=sort_key), key=lambda pair: pair[0]):
            yield entry, [self._evaluations[pair] for pair in pairs]


def entry_of(row: RunRow) -> AgentEntry:
    """Return the agent that played a run."""
    values = {name: property_of(row, name) for name in SETTINGS}
    settings = tuple((name, str(value)) for name, value in values.items() if value is not None)
    return AgentEntry(row.label or row.agent_kind, row.agent_kind, row.model or "", row.effort or "", settings)


def path_part(name: str) -> str:
    """Return a name as a path component, with unsafe characters replaced."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "unnamed"


def write_text(directory: Path, path: Path, text: str, rows: int) -> WrittenFile:
    """Write a file atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    part.write_text(text, encoding="utf-8")
    part.rename(path)
    return WrittenFile(str(path.relative_to(directory)), path, rows, path.stat().st_size)
