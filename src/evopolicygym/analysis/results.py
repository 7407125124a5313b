"""The results of runs, from checked records; what is left out is reported as a problem."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any

from evopolicygym.core.agent import OUTSIDE, SHELL, Allowance
from evopolicygym.core.errors import RecordError, UsageError
from evopolicygym.core.finding import ProgressTracker, no_progress
from evopolicygym.core.options import RUN_OPTIONS, Setting, changed_settings
from evopolicygym.core.run_summary import RunSummary
from evopolicygym.core.score import estimate
from evopolicygym.core.submission import SubmissionStatus
from evopolicygym.core.task import Anchor, TaskKind
from evopolicygym.core.text import printable
from evopolicygym.records.bundle import UnpackedBundle
from evopolicygym.records.checked import CheckedRun, RecordState, open_runs, unusable
from evopolicygym.records.nonce import nonce_finding
from evopolicygym.records.reader import Problem, read_run
from evopolicygym.specs.games import GameIdentity, game_of

UNFINISHED = "The run is not finished"
FURTHER = tuple(option for option in RUN_OPTIONS if option.comparability_label and not option.record_field)
"""Options that runs must agree in and that a result has among its choices."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """A run after one of its submissions."""

    spent: int
    """Episodes charged up to and with it."""
    validation_mean: float | None
    """Its checkpoint's mean over the validation cases; None if it is not a candidate."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """One finished run, as tables want it. No text in it has a character that can't be printed."""

    root: Path
    run_id: str
    task: str
    game: GameIdentity
    """The game that the task's name stood for in this run."""
    family: str
    kind: TaskKind
    agent: str
    model: str
    effort: str
    command: tuple[str, ...]
    seed: int | None
    """None if unknown."""
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
    """The returns in the split's order; empty without a score."""
    success_rate: float | None
    budget: int
    spent: int
    submissions: int
    validation_cases: int
    """0 if unknown."""
    feedback: str
    films: int = 0
    """Films of train episodes that the agent could ask for."""
    policy_packages: str = ""
    """Distributions that policies may import besides those that all may, with spaces between."""
    finish: str = ""
    """``allowed`` or ``refused``: whether the agent could end the run early; empty if it always can, as outside."""
    choices: Mapping[str, Setting] = field(default_factory=dict)
    """The values of the other options that runs must agree in, by name, unless they are the default."""
    tokens: float | None = None
    """As ``RunSummary.tokens``."""
    cost: float | None = None
    """As ``RunSummary.cost``."""
    wall_s: float = 0.0
    """Seconds from opening to end, less what it was stopped in good order."""
    turn_s: float = 0.0
    """Seconds of the agent's turns."""
    random_anchor: Anchor | None = None
    idle_anchor: Anchor | None = None
    reference_anchor: Anchor | None = None
    """The score of the reference policy; None if the record has none."""
    validation_mean: float | None = None
    """Of the selected checkpoint; None without one."""
    curve: tuple[CurvePoint, ...] = ()
    """The state of the run after each of its submissions."""
    experiment_name: str = ""
    """The name from the experiment's directory; empty without one."""
    simulator_code: Mapping[str, str] = field(default_factory=dict)
    """The modules that make the environment, each with a hash of its files; empty if the record doesn't tell."""
    program_sha256: str = ""
    """The hash of the agent's program at the start; empty without a program, or if the record lacks it."""
    program_changes: tuple[str, ...] = ()
    """The hash of each program that replaced it when the run was resumed."""
    allowance: Allowance = field(default_factory=Allowance)
    """The agent's allowance."""
    limits: str = "none"
    """The same in words: the limits by their options."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The agent's extra options."""
    given_label: str = ""
    """The user's label for the agent; empty if none was given."""
    held_out_cases: int = 0
    """The number of cases that were to score the run; 0 if unknown."""
    checkpoints: tuple[str, ...] = ()
    """The checkpoints of its submissions, in order; empty if the record lacks them."""
    agent_version: str = ""
    """The version of the agent's tool or library; empty where it is unknown."""
    nonce: str = ""
    """The nonce of a board, from which its cases are derived too; empty without one."""
    revealed: bool = False
    """Whether its cases were revealed before it began."""
    model_server: str = ""
    """Host and port of its model's server; empty if its record names none."""
    ended_by: str = ""
    """What ended its submissions (``RunSummary.ended_by``); empty if unknown."""
    is_early: bool = False
    """Whether they ended with episodes unspent."""
    record_state: RecordState = RecordState.UNVERIFIED
    """How far the record is to be believed."""
    label: str = field(default="", compare=False)
    """The label of the run's entry."""

    @property
    def is_release(self) -> bool:
        """Whether it was played by the paper's release: of its task, only the name is known."""
        return not self.game.id

    @property
    def programs(self) -> tuple[str, ...]:
        """The hashes of all programs that the agent was during the run, in their order."""
        return tuple(filter(None, (self.program_sha256, *self.program_changes)))

    @property
    def identity(self) -> tuple[str, ...]:
        """The properties that only copies of a run share; ids are drawn independently, so an id is not enough."""
        played = (self.experiment, self.task, self.agent, self.model, self.effort, *self.command, str(self.seed))
        return (self.run_id, *played)

    @property
    def options_text(self) -> str:
        """The agent's extra options in a word."""
        return json.dumps(dict(self.options), sort_keys=True, default=str) if self.options else ""

    @property
    def fingerprint(self) -> str:
        """A short hash of the versions of packages that the numbers depend on, without the tasks' specs."""
        text = json.dumps([self.protocol_version, sorted(self.versions.items())])
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def score(self) -> float | None:
        """Mean of the held-out returns; None if nothing was scored."""
        return estimate(self.held_out_returns).mean if self.held_out_returns else None

    @property
    def selection_optimism(self) -> float | None:
        """The selected checkpoint's validation mean less its held-out mean; None if either is unknown.

        The best of several noisy validation means is above its true mean on average, so this is above 0 on average.
        Where no candidate was better than another nothing was selected: None.
        """
        candidates = {point.validation_mean for point in self.curve if point.validation_mean is not None}
        if self.score is None or self.validation_mean is None or len(candidates) < 2:  # noqa: PLR2004 - a choice
            return None
        return self.validation_mean - self.score

    @property
    def standard_error(self) -> float | None:
        """Standard error of the score over its cases."""
        return estimate(self.held_out_returns).standard_error if self.held_out_returns else None


@dataclass(frozen=True, slots=True)
class Results:
    """All runs that could be read, and those that could not."""

    runs: tuple[RunResult, ...] = ()
    problems: tuple[Problem, ...] = ()
    places: tuple[Path, ...] = ()
    """The directories that were searched; paths of a report are relative to them."""
    bundles: tuple[UnpackedBundle, ...] = ()
    """The bundles among the places."""


def count_states(runs: Iterable[RunResult]) -> Counter[str]:
    """Return how many records of some runs are in each state, the most believed first."""
    counts = Counter(run.record_state for run in runs)
    return Counter({state.value: counts[state] for state in RecordState if counts[state]})


def states_text(runs: Iterable[RunResult]) -> str:
    """Return the states of some runs' records, with counts where there are several; empty without runs."""
    counts = count_states(runs)
    return next(iter(counts), "") if len(counts) == 1 else ", ".join(f"{n} {state}" for state, n in counts.items())


def record_notes(runs: Iterable[RunResult]) -> list[str]:
    """Return a note on the states of runs' records, unless all were played here or ship with the package."""
    counts = count_states(runs)
    if counts.keys() <= {RecordState.PLAYED_HERE, RecordState.SHIPPED}:
        return []
    return [f"Records of runs: {', '.join(f'{count} {state}' for state, count in counts.items())}."]


def count_early(runs: Iterable[RunResult]) -> Counter[str]:
    """Return how many runs ended with episodes unspent, by what ended them."""
    return Counter(run.ended_by for run in runs if run.is_early)


def early_notes(runs: Iterable[RunResult]) -> list[str]:
    """Return a note on runs that ended with episodes unspent, by entry and by what ended them; empty without any."""
    by_label: dict[str, list[RunResult]] = {}
    for run in runs:
        by_label.setdefault(run.label or run.agent, []).append(run)
    found = {label: counts for label, each in by_label.items() if (counts := count_early(each))}
    if not found:
        return []
    texts = (f"{label} ({', '.join(f'{n} by {why}' for why, n in counts.items())})" for label, counts in found.items())
    return [f"Runs that ended with episodes unspent: {'; '.join(texts)}."]


COLUMNS = {
    "run_id": "run",
    "agent": "harness",
    "given_label": "label",
    "label": "entry",
    "split": "split_source",
    "experiment": "experiment_id",
    "cost": "known_cost",
    "wall_s": "wall_seconds",
    "turn_s": "turn_seconds",
}
"""The columns of ``RunSummary.row()`` that a result holds under names of its own."""
MADE_HERE = frozenset(
    {
        "root",
        "game",
        "kind",
        "finish",
        "choices",
        "experiment_name",
        "reference_anchor",
        "validation_cases",
        "held_out_cases",
        "curve",
        "record_state",
    }
)
"""What a result holds besides that row's columns."""


def load_results(paths: Iterable[Path], follow: ProgressTracker = no_progress, *, needed: bool = False) -> Results:
    """Return the results of all finished runs at or below some places, each once; bundles are places too.

    Every record is checked (``records/checked.py``); one that doesn't hold is a problem. A copy of a run is a problem,
    not a repeat. ``follow`` wraps the loop over runs, to show progress. Raises as ``open_runs`` does, and
    ``UsageError`` if a place has neither runs nor problems; with ``needed`` also ``RecordError`` if none can be used.
    """
    opened = open_runs(paths, follow)
    found: dict[tuple[str, ...], list[RunResult]] = {}
    problems = list(opened.problems)
    for run in opened.runs:
        try:
            result = result_of(run)
        except RecordError as error:
            problems.append(Problem(run.root, printable(str(error))))
            continue
        found.setdefault(result.identity, []).append(result)
    if not opened.runs and not problems and opened.places:
        raise UsageError(f"There are no runs below {opened.places[0]}; a run's directory holds a journal.jsonl.")
    if not found and any(not problem.reason.startswith(UNFINISHED) for problem in problems) and needed:
        raise unusable(problems)
    originals = [_original(copies) for copies in found.values()]
    for original, copies in zip(originals, found.values(), strict=True):
        what = f"is a copy of {printable(str(original.root))}: both are the run {original.run_id}, which counts once."
        problems += [Problem(run.root, what) for run in copies if run is not original]
    problems.sort(key=lambda problem: problem.root)
    return Results(tuple(originals), tuple(problems), opened.places, opened.bundles)


def results_of_nonce(results: Results, nonce: str) -> Results:
    """Return the results of runs with a board's nonce and an identity that is their secret's; others are problems."""
    kept, problems = [], list(results.problems)
    for run in results.runs:
        finding = nonce_finding(run.root, read_run(run.root).state.opened, nonce)
        if finding is None or finding.ok:
            kept.append(run)
        else:
            problems.append(Problem(run.root, f"{finding.name}: {finding.detail}"))
    return replace(results, runs=tuple(kept), problems=tuple(problems))


def _original(copies: Sequence[RunResult]) -> RunResult:
    """Return the run whose directory still has the run's id as its name, else the first."""
    return next((run for run in copies if run.root.name == run.run_id), copies[0])


def result_of(run: CheckedRun) -> RunResult:
    """Return the result of a finished run; raise ``RecordError`` if it isn't finished."""
    summary = run.summary
    if not summary.is_finished or summary.outcome.status is None:
        raise RecordError(f"{UNFINISHED} ({summary.stage.value}).")
    row, environment = summary.row(), summary.task.environment
    return RunResult(
        **{name: row[column] for name, column in _columns().items()},
        root=run.root,
        record_state=run.state,
        game=game_of(environment),
        kind=environment.kind,
        experiment_name=run.experiment_name,
        finish=_finish(summary),
        choices=changed_settings(summary.task, FURTHER),
        reference_anchor=environment.reference_anchor,
        validation_cases=summary.task.validation_cases,
        held_out_cases=summary.task.held_out_cases,
        curve=_curve(summary),
    )


@cache
def _columns() -> dict[str, str]:
    """Return the column of ``RunSummary.row()`` that each field of a result is, where it is one."""
    names = (field.name for field in fields(RunResult) if field.name not in MADE_HERE)
    return {name: COLUMNS.get(name, name) for name in names}


def _curve(summary: RunSummary) -> tuple[CurvePoint, ...]:
    spent = accumulate(submission.n_episodes for submission in summary.submissions)
    return tuple(
        CurvePoint(episodes, submission.validation_mean if submission.status is SubmissionStatus.OK else None)
        for episodes, submission in zip(spent, summary.submissions, strict=True)
    )


def _finish(summary: RunSummary) -> str:
    if summary.agent.name in {OUTSIDE, SHELL}:
        return ""
    return "allowed" if summary.task.finish_allowed else "refused"
