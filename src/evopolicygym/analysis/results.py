"""What tables want of a run, read from its ``run.json``; many of them at once, with what could not be had.

A run's episodes and submissions are not told here; ``records/reader.py`` reads a whole journal. What ``run.json`` says
is believed: ``verify`` is what checks it.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import AwareDatetime, BaseModel, Field

from evopolicygym.analysis.experiments import name_of
from evopolicygym.analysis.run_json import AgentFields, EnvironmentFields, Name, decoded
from evopolicygym.core import regular_file
from evopolicygym.core.agent import entry_of
from evopolicygym.core.environment import Anchor, Kind
from evopolicygym.core.errors import RecordError, UsageError
from evopolicygym.core.printable import printable
from evopolicygym.core.run import Stage
from evopolicygym.core.score import estimate
from evopolicygym.records.documents import SCHEMA_VERSION
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import KNOWN_BY, find_runs
from evopolicygym.records.run_document import MOST_DOCUMENT, counted_success_rate, document_text
from evopolicygym.specs.game_identity import Game


class _Task(BaseModel):
    environment: EnvironmentFields
    validation_cases: int
    feedback: Name = "full"
    films: int = 0
    policy_packages: tuple[Name, ...] = ()


class _Fingerprint(BaseModel):
    versions: dict[Name, Name]
    simulator_code: dict[Name, Name] = Field(default_factory=dict)
    spec_sha256: Name


class _Isolation(BaseModel):
    level: Name


class _Budget(BaseModel):
    episodes: int
    spent: int
    submissions: int


class _Stop(BaseModel):
    at: AwareDatetime


class _Timing(BaseModel):
    opened_at: AwareDatetime
    finished_at: AwareDatetime | None
    resumed_at: list[AwareDatetime] = Field(default_factory=list)
    stops: list[_Stop] = Field(default_factory=list)


class _Outcome(BaseModel):
    status: Name | None
    held_out_returns: list[float] | None
    success_rate: float | None
    held_out_failures: int = 0


class _Document(BaseModel):
    """The part of ``run.json`` that tables read; what else stands there is left alone."""

    schema_version: Name
    protocol_version: Name
    run_id: Name
    stage: Stage
    task: _Task
    agent: AgentFields
    seed: int
    split: Name
    experiment: Name
    commitment: Name
    fingerprint: _Fingerprint
    isolation: _Isolation
    budget: _Budget
    timing: _Timing
    outcome: _Outcome
    usage: dict[str, float | None] | None = None
    tool_usage: dict[str, float | None] | None = None


@dataclass(frozen=True, slots=True)
class RunResult:
    """One finished run, as tables want it. No text in it has a character that can't be printed."""

    root: Path
    run_id: str
    task: str
    game: Game
    """What the task's name stood for in this run."""
    family: str
    kind: Kind
    agent: str
    model: str
    effort: str
    command: tuple[str, ...]
    seed: int
    split: str
    experiment: str
    """Its identity."""
    commitment: str
    protocol_version: str
    versions: Mapping[str, str]
    spec_sha256: str
    isolation: str
    status: str
    """``scored``, or ``no_ok_submit`` where nothing could be scored."""
    held_out_returns: tuple[float, ...]
    """In the split's order; empty where nothing was scored."""
    success_rate: float | None
    budget: int
    spent: int
    submissions: int
    validation_cases: int
    feedback: str
    films: int = 0
    policy_packages: str = ""
    """Distributions that policies may import besides those that all may, with spaces between."""
    """Films of train episodes that the agent could ask for."""
    tokens: float | None = None
    """In and out, as counted at the model's door, or by the agent's tool where there was no door; None if neither."""
    cost: float | None = None
    """In US dollars, where the record tells it."""
    wall_s: float = 0.0
    """Seconds from opening to end, less what it lay put down in good order."""
    random_anchor: Anchor | None = None
    idle_anchor: Anchor | None = None
    experiment_name: str = ""
    """As the directory tells it that the run lies in; empty where none does."""
    simulator_code: Mapping[str, str] = field(default_factory=dict)
    """The modules that make the environment, each with a hash of its files; empty where the record doesn't tell."""
    program_sha256: str = ""
    """Of the files that the agent's command names; empty where it names none, or the record doesn't tell."""
    label: str = field(default="", compare=False)
    """Of the entry that this run belongs to."""

    @property
    def identity(self) -> tuple[str, ...]:
        """What a run shares with its copies alone; ids are drawn apart, so more is looked at than the id."""
        played = (self.experiment, self.task, self.agent, self.model, self.effort, *self.command, str(self.seed))
        return (self.run_id, *played)

    @property
    def fingerprint(self) -> str:
        """Short for the versions of packages that the numbers depend on; specs, which tasks differ in, aside."""
        text = json.dumps([self.protocol_version, sorted(self.versions.items())])
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def score(self) -> float | None:
        """Mean of the held-out returns; None where nothing was scored."""
        return estimate(self.held_out_returns).mean if self.held_out_returns else None

    @property
    def standard_error(self) -> float | None:
        """Standard error of the score over its cases."""
        return estimate(self.held_out_returns).standard_error if self.held_out_returns else None


@dataclass(frozen=True, slots=True)
class Problem:
    """A run that is not in the results, and why."""

    root: Path
    reason: str


@dataclass(frozen=True, slots=True)
class Results:
    """All runs that could be had, and those that could not."""

    runs: tuple[RunResult, ...] = ()
    problems: tuple[Problem, ...] = ()


def load_results(paths: Iterable[Path]) -> Results:
    """Return the results of all runs at or below some places, each once; raise ``UsageError`` where a place isn't.

    A copy of a run is a problem, and no repeat.
    """
    found: dict[tuple[str, ...], list[RunResult]] = {}
    problems = []
    for root in dict.fromkeys(root for path in paths for root in _roots(path)):
        try:
            run = load_result(root)
        except (RecordError, UsageError, OSError) as error:
            problems.append(Problem(root, printable(str(error))))
            continue
        found.setdefault(run.identity, []).append(run)
    originals = [_original(copies) for copies in found.values()]
    for original, copies in zip(originals, found.values(), strict=True):
        told = f"is a copy of {printable(str(original.root))}: both are the run {original.run_id}, which counts once."
        problems += [Problem(one.root, told) for one in copies if one is not original]
    return Results(tuple(originals), tuple(problems))


def _original(copies: Sequence[RunResult]) -> RunResult:
    """Return the one whose directory is still called as a run's is, where there is such a one, else the first."""
    return next((one for one in copies if one.root.name == one.run_id), copies[0])


def load_result(root: Path) -> RunResult:
    """Return the result of a finished run; raise ``RecordError`` where it isn't finished or can't be read."""
    run = _result(_document(RunPaths(root)), root)
    return replace(run, experiment_name=name_of(root, run.experiment))


def result_of(text: str, root: Path) -> RunResult:
    """Return the result that the text of a ``run.json`` tells; raise ``RecordError`` as ``load_result`` does."""
    return _result(decoded(_Document, text), root)


def _result(document: _Document, root: Path) -> RunResult:
    if document.schema_version != SCHEMA_VERSION:
        raise RecordError(f"run.json has the form {document.schema_version}; this version reads {SCHEMA_VERSION}.")
    if document.stage is not Stage.FINISHED or document.outcome.status is None:
        raise RecordError(f"The run is not finished ({document.stage.value}).")
    if document.outcome.status == "scored" and not document.outcome.held_out_returns:
        raise RecordError("The run is scored, but its run.json holds no held-out returns.")
    agent, environment, outcome = document.agent, document.task.environment, document.outcome
    return RunResult(
        root=root,
        run_id=document.run_id,
        task=environment.name,
        game=environment.game,
        family=environment.family,
        kind=environment.kind,
        agent=agent.name,
        model=agent.model,
        effort=agent.effort or "",
        command=agent.command,
        program_sha256=agent.program_sha256,
        seed=document.seed,
        split=document.split,
        experiment=document.experiment,
        commitment=document.commitment,
        protocol_version=document.protocol_version,
        versions=document.fingerprint.versions,
        simulator_code=document.fingerprint.simulator_code,
        spec_sha256=document.fingerprint.spec_sha256,
        isolation=document.isolation.level,
        status=outcome.status or "",
        held_out_returns=tuple(outcome.held_out_returns or ()),
        success_rate=counted_success_rate(RunPaths(root), outcome.success_rate, outcome.held_out_failures),
        budget=document.budget.episodes,
        spent=document.budget.spent,
        submissions=document.budget.submissions,
        validation_cases=document.task.validation_cases,
        feedback=document.task.feedback,
        films=document.task.films,
        policy_packages=" ".join(document.task.policy_packages),
        tokens=_tokens(document.usage) if document.usage else _tokens(document.tool_usage),
        cost=_cost(document.usage, document.tool_usage),
        wall_s=_wall_seconds(document.timing),
        random_anchor=environment.random_anchor,
        idle_anchor=environment.idle_anchor,
        label=entry_of(agent.name, agent.model, agent.effort or "", agent.command, agent.label),
    )


def _roots(path: Path) -> Iterable[Path]:
    if not path.exists():
        raise UsageError(f"{path} does not exist; the directory of a run, or one with runs below it, is asked for.")
    found = [one.resolve() for one in find_runs(path, KNOWN_BY)]
    if not found:
        raise UsageError(f"There are no runs below {path}; a run's directory holds a journal.jsonl or a run.json.")
    return found


def _document(paths: RunPaths) -> _Document:
    """Return the run's document: as it is written, or made of the journal where that knows more."""
    try:
        document = decoded(_Document, regular_file.read(paths.document, MOST_DOCUMENT).decode("utf-8", "replace"))
    except FileNotFoundError:
        document = None
    if (document is None or document.stage is not Stage.FINISHED) and regular_file.is_there(paths.journal):
        return decoded(_Document, document_text(paths))
    if document is None:
        raise RecordError("There is neither a run.json nor a journal.jsonl.")
    return document


def _tokens(usage: Mapping[str, Any] | None) -> float | None:
    told = [usage[name] for name in ("input", "output") if usage.get(name) is not None] if usage else []
    return math.fsum(told) if told else None


def _cost(*usages: Mapping[str, float | None] | None) -> float | None:
    """Return the first cost that is told."""
    told = (usage["cost"] for usage in usages if usage and usage.get("cost") is not None)
    return next(told, None)


def _wall_seconds(timing: _Timing) -> float:
    """Return the seconds between beginnings and ends; a piece that a crash ended has no known end and adds none."""
    marks = [(at, True) for at in (timing.opened_at, *timing.resumed_at)] + [(one.at, False) for one in timing.stops]
    marks += [(timing.finished_at, False)] if timing.finished_at else []
    seconds, began = 0.0, None
    for at, begins in sorted(marks, key=lambda mark: mark[0]):
        if not begins and began is not None:
            seconds += (at - began).total_seconds()
        began = at if begins else None
    return seconds
