"""Scores of agents as formats for common results need them: runs of one agent under one protocol, put together.

``formats/every_eval_ever.py`` and ``formats/hf_eval_results.py`` write them. Runs are put together where the agent, its
model and all settings that change what is measured are the same; each task then has one evaluation.
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
from evopolicygym.analysis.results import RunResult, result_of
from evopolicygym.core.score import Estimate, estimate, normalised
from evopolicygym.export.exporters import BaseExporter, WrittenFile
from evopolicygym.export.schema.rows import RunRow
from evopolicygym.export.schema.tables import RunTables
from evopolicygym.records.run_document import summary_of

OF_THE_TASK = frozenset({"commitment", "versions", "simulator_code", "spec_sha256"})
"""Properties that belong to a run's task and cases; they may differ between the tasks and repeats of one agent."""
SETTINGS = (*(name for name in COMPARED if name not in OF_THE_TASK), "isolation", "split")
"""Properties of a run that must agree before runs are put together, besides those of the agent."""


@dataclass(frozen=True, slots=True)
class AgentEntry:
    """An agent: what plays, and under which settings."""

    agent: str
    """What its user calls it."""
    harness: str
    model: str
    """The model's name as the run has it; empty where the agent asks none."""
    effort: str
    settings: tuple[tuple[str, str], ...]
    """Names and values of ``SETTINGS``."""

    @property
    def model_id(self) -> str:
        """``DEVELOPER/MODEL``, fit for a path; an agent without a model is its own, of this project."""
        developer, _, model = self.model.rpartition("/")
        if not self.model:
            developer, model = "evopolicygym", self.agent
        return f"{'/'.join(map(path_part, filter(None, developer.split('/')))) or 'unknown'}/{path_part(model)}"


@dataclass(slots=True)
class TaskEvaluation:
    """One agent's finished runs of one task."""

    row: RunRow
    """The first of them; they differ in their experiment, seed and outcome."""
    random: float | None
    reference: float | None
    runs: list[RunRow] = field(default_factory=list)

    @property
    def returns(self) -> Estimate:
        """Mean held-out return; the error is over runs, or over cases where there is one run."""
        if len(self.runs) == 1:
            return Estimate(self.row.score or 0.0, self.row.standard_error, self.row.held_out_cases)
        return estimate([row.score for row in self.runs if row.score is not None])

    @property
    def normalised(self) -> Estimate | None:
        """The same from 0 (random) to 1 (the reference), clipped; None where the task lacks one of them."""
        random, reference = self.random, self.reference
        if random is None or reference is None or reference <= random:
            return None
        if len(self.runs) == 1:
            error = self.returns.standard_error
            scale = reference - random
            value = normalised(self.returns.mean, random, reference)
            return Estimate(value, None if error is None else error / scale, self.returns.count)
        return estimate([normalised(row.score, random, reference) for row in self.runs if row.score is not None])

    @property
    def success(self) -> Estimate | None:
        """The share of held-out episodes that succeeded; None where the task knows no success."""
        rates = [row.success_rate for row in self.runs if row.success_rate is not None]
        return estimate(rates) if rates else None

    @property
    def finished(self) -> datetime:
        """When the last run was finished."""
        return max(row.finished_at for row in self.runs if row.finished_at)


class EvaluationsExporter(BaseExporter):
    """Writes one file for each agent; runs without a score are named in a note."""

    tables: ClassVar[tuple[str, ...]] = ()

    def __init__(self, directory: Path, tables: Sequence[str]) -> None:
        super().__init__(directory, tables)
        self._found: dict[tuple[AgentEntry, str], TaskEvaluation] = {}

    @abstractmethod
    def write(self, entry: AgentEntry, tasks: list[TaskEvaluation]) -> WrittenFile | None:
        """Write one agent's evaluations; None where the format has no place for them."""

    def add(self, run: RunTables) -> None:
        """Put a run to its agent's others."""
        row = run.row
        if row.score is None or row.finished_at is None:
            self.notes.append(f"{row.run} is left out: it has no score ({row.status or row.stage}).")
            return
        environment = run.record.state.opened.task.environment
        anchors = environment.random_anchor, environment.reference_anchor
        random, reference = (anchor.mean if anchor else None for anchor in anchors)
        evaluation = TaskEvaluation(row, random, reference)
        result = result_of(summary_of(run.record), run.record.paths.root)
        self._found.setdefault((entry_of(row, result), row.task), evaluation).runs.append(row)

    def finish(self) -> list[WrittenFile]:
        """Write all files."""
        return list(filter(None, (self.write(entry, tasks) for entry, tasks in self._entries())))

    def give_up(self) -> None:
        """Nothing is written before the end."""

    def _entries(self) -> Iterator[tuple[AgentEntry, list[TaskEvaluation]]]:
        def place(pair: tuple[AgentEntry, str]) -> tuple[object, ...]:
            entry, task = pair
            return entry.agent, entry.harness, entry.model, entry.effort, entry.settings, task

        for entry, found in groupby(sorted(self._found, key=place), key=lambda pair: pair[0]):
            yield entry, [self._found[pair] for pair in found]


def entry_of(row: RunRow, result: RunResult) -> AgentEntry:
    """Return the agent that played a run."""
    values = {name: property_of(result, name) for name in SETTINGS}
    settings = tuple((name, str(value)) for name, value in values.items() if value is not None)
    return AgentEntry(row.agent, row.harness, row.model or "", row.effort or "", settings)


def path_part(name: str) -> str:
    """Return a name with all characters replaced that a part of a path shouldn't have."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "unnamed"


def write_text(directory: Path, path: Path, text: str, rows: int) -> WrittenFile:
    """Write a file whole, and return what was written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    part.write_text(text, encoding="utf-8")
    part.rename(path)
    return WrittenFile(str(path.relative_to(directory)), path, rows, path.stat().st_size)
