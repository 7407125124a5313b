"""What tables want of a run, read from its ``run.json``; many of them at once, with what could not be read.

A run's episodes and submissions aren't read here; ``records/reader.py`` reads a whole journal. What ``run.json`` says
is believed: ``verify`` is what checks it.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from evopolicygym.core.agent import OUTSIDE, SHELL, Allowance
from evopolicygym.core.errors import RecordError, UsageError
from evopolicygym.core.event import RunStatus
from evopolicygym.core.options import RUN_OPTIONS, Setting, changed_settings
from evopolicygym.core.run_summary import RunSummary
from evopolicygym.core.score import estimate
from evopolicygym.core.task import Anchor, TaskKind
from evopolicygym.core.text import printable
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.run_document import read_summary
from evopolicygym.records.run_names import KNOWN_BY, experiment_name, find_runs
from evopolicygym.specs.catalog import GameIdentity, game_of

FURTHER = tuple(option for option in RUN_OPTIONS if option.comparability_label and not option.record_field)
"""Options that runs must agree in and that a result holds among its choices."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """One finished run, as tables want it. No text in it has a character that can't be printed."""

    root: Path
    run_id: str
    task: str
    game: GameIdentity
    """What the task's name stood for in this run."""
    family: str
    kind: TaskKind
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
    """Films of train episodes that the agent could ask for."""
    policy_packages: str = ""
    """Distributions that policies may import besides those that all may, with spaces between."""
    finish: str = ""
    """``allowed`` or ``refused``: whether the agent could end the run early; empty where it always can, as outside."""
    choices: Mapping[str, Setting] = field(default_factory=dict)
    """What was chosen in the other options that runs must agree in, by name, where it isn't the default."""
    tokens: float | None = None
    """As ``RunSummary.tokens``."""
    cost: float | None = None
    """As ``RunSummary.cost``."""
    wall_s: float = 0.0
    """Seconds from opening to end, less what it was stopped in good order."""
    random_anchor: Anchor | None = None
    idle_anchor: Anchor | None = None
    experiment_name: str = ""
    """As the directory tells it that the run lies in; empty where none does."""
    simulator_code: Mapping[str, str] = field(default_factory=dict)
    """The modules that make the environment, each with a hash of its files; empty where the record doesn't tell."""
    program_sha256: str = ""
    """Of the agent's program when the run began; empty where it has none, or the record doesn't tell."""
    program_changes: tuple[str, ...] = ()
    """The same of each program with which the run was resumed in place of that one."""
    allowance: Allowance = field(default_factory=Allowance)
    """What the agent may use."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The agent's extra options."""
    given_label: str = ""
    """What its user calls the agent; empty where that was not said."""
    held_out_cases: int = 0
    """How many it was to be scored on."""
    checkpoints: tuple[str, ...] = ()
    """Of its submissions, in order; empty where the record doesn't tell."""
    revealed: bool = False
    """Whether its cases were revealed before it began."""
    label: str = field(default="", compare=False)
    """Of the entry that this run belongs to."""

    @property
    def programs(self) -> tuple[str, ...]:
        """The hashes of all programs that the agent was during the run, in their order."""
        return tuple(filter(None, (self.program_sha256, *self.program_changes)))

    @property
    def identity(self) -> tuple[str, ...]:
        """What a run shares with its copies alone; ids are drawn apart, so more is looked at than the id."""
        played = (self.experiment, self.task, self.agent, self.model, self.effort, *self.command, str(self.seed))
        return (self.run_id, *played)

    @property
    def options_text(self) -> str:
        """The agent's extra options in a word."""
        return json.dumps(dict(self.options), sort_keys=True, default=str) if self.options else ""

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

    @property
    def document(self) -> dict[str, str]:
        """The same as JSON has it."""
        return {"run": str(self.root), "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Results:
    """All runs that could be read, and those that could not."""

    runs: tuple[RunResult, ...] = ()
    problems: tuple[Problem, ...] = ()


COLUMNS = {
    "run_id": "run",
    "agent": "harness",
    "given_label": "label",
    "label": "entry",
    "split": "split_source",
    "experiment": "experiment_id",
    "cost": "known_cost",
    "wall_s": "wall_seconds",
}
"""The columns of ``RunSummary.row()`` that a result holds under names of its own."""
MADE_HERE = frozenset({"root", "game", "kind", "finish", "choices", "experiment_name"})
"""What a result holds besides that row's columns."""


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
        what = f"is a copy of {printable(str(original.root))}: both are the run {original.run_id}, which counts once."
        problems += [Problem(run.root, what) for run in copies if run is not original]
    return Results(tuple(originals), tuple(problems))


def _original(copies: Sequence[RunResult]) -> RunResult:
    """Return the one whose directory is still called as a run's is, where there is such a one, else the first."""
    return next((run for run in copies if run.root.name == run.run_id), copies[0])


def load_result(root: Path) -> RunResult:
    """Return the result of a finished run; raise ``RecordError`` where it isn't finished or can't be read."""
    run = result_of(read_summary(RunPaths(root)), root)
    return replace(run, experiment_name=printable(experiment_name(root, run.experiment)))


def result_of(summary: RunSummary, root: Path) -> RunResult:
    """Return the result that a run's summary holds; raise ``RecordError`` as ``load_result`` does."""
    if not summary.is_finished or summary.outcome.status is None:
        raise RecordError(f"The run is not finished ({summary.stage.value}).")
    if summary.outcome.status is RunStatus.SCORED and summary.held_out is None:
        raise RecordError("The run is scored, but its run.json holds no held-out returns.")
    row, environment = summary.row(), summary.task.environment
    columns = {field.name: COLUMNS.get(field.name, field.name) for field in fields(RunResult)}
    return RunResult(
        **{name: row[column] for name, column in columns.items() if name not in MADE_HERE},
        root=root,
        game=game_of(environment),
        kind=environment.kind,
        finish=_finish(summary),
        choices=changed_settings(summary.task, FURTHER),
    )


def _finish(summary: RunSummary) -> str:
    if summary.agent.name in {OUTSIDE, SHELL}:
        return ""
    return "allowed" if summary.task.finish_allowed else "refused"


def _roots(path: Path) -> Iterable[Path]:
    if not path.exists():
        raise UsageError(f"{path} does not exist; expected the directory of a run, or one with runs below it.")
    found = [root.resolve() for root in find_runs(path, KNOWN_BY)]
    if not found:
        raise UsageError(f"There are no runs below {path}; a run's directory holds a journal.jsonl or a run.json.")
    return found
