"""Which records a suite has, and what each says of its run.

A record belongs to a planned run when it says so itself: same agent, task, seed and cases. So nothing is lost where a
suite is killed between the opening of a run and the noting of it, for there is no such note. It counts only where this
user played it on this machine, which its high-water mark says, and where a finished one verifies: whatever else lies in
the experiment's directory may have been laid there, and its run is played.
"""

import json
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from itertools import combinations
from pathlib import Path

from evopolicygym.analysis.audit import DOCUMENT, audit
from evopolicygym.core.agent import AgentConfig, AgentEnd
from evopolicygym.core.cases import Split, SplitSource
from evopolicygym.core.errors import RecordError
from evopolicygym.core.event import AgentEnded, RunOpened, RunStopped, StopReason
from evopolicygym.core.options import AUTO
from evopolicygym.core.rollout import Isolation
from evopolicygym.core.strict_json import dumps
from evopolicygym.core.task import Task
from evopolicygym.records import journal, rollback_guard
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import RunRecord, find_runs, read_run, record_of
from evopolicygym.records.run_document import is_current
from evopolicygym.runs.suites.suite import PlannedRun

EXPECTED_ENDS = {AgentEnd.FINISHED.value, AgentEnd.STOPPED.value}
WORDS = 500
"""The most characters that are shown of why a run failed."""


class PlannedRunVerdict(StrEnum):
    """What has come of a planned run."""

    FINISHED = "finished"
    """It has its result; that may be none, where its agent submitted nothing that could be played."""
    FAILED = "failed"
    """It was stopped for a reason outside of the agent; it can be resumed."""
    INTERRUPTED = "interrupted"
    WAITING = "waiting"
    """It was not begun."""


@dataclass(frozen=True, slots=True)
class PlannedRunStopped:
    """The last words of a run's process: the run was stopped before its end, or could not be opened."""

    reason: str
    """``interrupted``, or the kind of error."""
    message: str = ""


@dataclass(frozen=True, slots=True)
class PlannedRunResult:
    """A planned run and what has come of it."""

    planned: PlannedRun
    verdict: PlannedRunVerdict = PlannedRunVerdict.WAITING
    root: Path | None = None
    score: float | None = None
    standard_error: float | None = None
    reason: str = ""
    """In a word: why it failed, or how its agent ended, where that is worth telling."""
    message: str = ""
    returns: tuple[float, ...] = ()
    """Held-out, in the split's order."""


def is_own(record: RunRecord) -> bool:
    """Return whether this user played a record's run on this machine, and a finished one is as it was played."""
    root = record.paths.root
    if not rollback_guard.is_own_run(root):
        return False
    if record.state.finished is None:
        return True
    return all(finding.ok or finding.settled_by_replay or finding.name == DOCUMENT for finding in audit(root))


def found(
    plan: Iterable[PlannedRun], directory: Path, counts: Callable[[RunRecord], bool] = is_own
) -> dict[int, PlannedRunResult]:
    """Return what has come of each planned run by what lies in the directory of its experiment, by number.

    A record that doesn't count is passed over. Where several are of one planned run, the one that was opened first
    counts. Raises ``RecordError`` where a record can't be read: nobody knows which run it is of.
    """
    plan = tuple(plan)
    wanted = identities_by_run(plan)
    asked = {identity for identities in wanted.values() for identity in identities}
    records: dict[str, RunRecord] = {}
    for root in find_runs(directory):
        record = _read(root)
        if record is None:
            continue
        identities = asked.intersection(record_identities(record.state.opened))
        if not identities or not counts(record):
            continue
        for identity in identities:
            known = records.get(identity)
            if known is None or record.state.opened.time < known.state.opened.time:
                records[identity] = record
    results = {}
    for run in plan:
        record_or_none = next(filter(None, map(records.get, wanted[run.number])), None)
        results[run.number] = PlannedRunResult(run) if record_or_none is None else _found(run, record_or_none)
    return results


def identities_by_run(plan: Iterable[PlannedRun]) -> dict[int, tuple[str, ...]]:
    """Return the identities of records of each run, by its number; that of an exact record comes first."""
    plan = tuple(plan)
    alone = {identity for identity, count in Counter(map(_unlabelled, plan)).items() if count == 1}
    return {run.number: tuple(_planned_identities(run, alone)) for run in plan}


def _found(run: PlannedRun, record: RunRecord) -> PlannedRunResult:
    """Return what a record says of a run; one whose ``run.json`` is not that of its journal is to be resumed.

    So is one that was killed before it was written, and resuming a finished run writes it anew.
    """
    said = result(run, record)
    if said.verdict is PlannedRunVerdict.FINISHED and not is_current(record.paths):
        return replace(said, verdict=PlannedRunVerdict.INTERRUPTED)
    return said


def result(run: PlannedRun, record: RunRecord) -> PlannedRunResult:
    """Return what a run's record says of it."""
    state, root = record.state, record.paths.root
    if state.finished is not None:
        ends = [event for event in record.events if isinstance(event, AgentEnded)]
        trouble = (ends[-1].end, ends[-1].message) if ends and ends[-1].end not in EXPECTED_ENDS else ("", "")
        returns = state.rollout(Split.HELD_OUT, state.selected.checkpoint).returns if state.selected else ()
        return PlannedRunResult(
            run, PlannedRunVerdict.FINISHED, root, state.finished.score, state.finished.standard_error, *trouble,
            returns=tuple(returns),
        )  # fmt: skip
    last = record.events[-1]
    if isinstance(last, RunStopped) and last.reason is not StopReason.INTERRUPTED:
        return PlannedRunResult(run, PlannedRunVerdict.FAILED, root, reason=_reason(record, last), message=last.message)
    return PlannedRunResult(run, PlannedRunVerdict.INTERRUPTED, root)


def result_of_process(
    run: PlannedRun, root: Path | None, stopped: PlannedRunStopped | None, exit_code: int, *, played: bool
) -> PlannedRunResult:
    """Return what has come of a run whose process has ended: its record tells, or what it said, or else its end.

    ``played`` says whether the process came so far that what is in the record may be of it.
    """
    recorded = result(run, read_run(root)) if root else PlannedRunResult(run)
    if recorded.verdict is PlannedRunVerdict.FINISHED or (recorded.verdict is PlannedRunVerdict.FAILED and played):
        return recorded
    if stopped is not None:
        verdict = (
            PlannedRunVerdict.INTERRUPTED if stopped.reason == StopReason.INTERRUPTED else PlannedRunVerdict.FAILED
        )
        return PlannedRunResult(run, verdict, root, reason=stopped.reason, message=stopped.message[:WORDS])
    how = f"killed by signal {-exit_code}" if exit_code < 0 else f"exit code {exit_code}"
    return PlannedRunResult(
        run, PlannedRunVerdict.FAILED, root, reason="process ended", message=f"its process ended by itself, {how}"
    )


def _read(root: Path) -> RunRecord | None:
    """Return a run's record; None where it was killed before it was opened."""
    paths = RunPaths(root)
    try:
        contents = journal.read(paths.journal)
        return record_of(paths, contents) if contents.events else None
    except RecordError as error:
        raise RecordError(
            f"{error}\nIt is unknown which run of the suite it is: move {root} out of the experiment to have it played "
            f"anew, or mend it."
        ) from error


def _reason(record: RunRecord, stop: RunStopped) -> str:
    """Return why a run was stopped, in a word: how its agent paused, where it did."""
    pauses = {end.value for end in AgentEnd if end.pauses}
    ends = [event.end for event in record.events if isinstance(event, AgentEnded)]
    return ends[-1] if stop.reason is StopReason.AGENT and ends and ends[-1] in pauses else stop.reason.value


def record_identities(opened: RunOpened) -> tuple[str, ...]:
    """Return the identities of a record: its isolation by name, or as auto, with the same features missing."""
    played = Isolation.parse(opened.isolation)
    return tuple(
        _identity(opened.task, opened.agent, opened.seed, opened.split, isolation)
        for isolation in (played, replace(played, backend=AUTO))
    )


def _planned_identities(run: PlannedRun, alone: Container[str]) -> Iterator[str]:
    """Yield the identities of records of a run: a feature that may be missing may have been there all the same.

    A record without a label is of a labelled run, too, where no other of the suite is the same but for its label.
    """
    config = run.config
    asked = Isolation.parse(config.isolation)
    bare = [replace(config.agent, label="")] if config.agent.label and _unlabelled(run) in alone else []
    for agent in (config.agent, *bare):
        for count in range(len(asked.missing) + 1):
            for missing in combinations(sorted(asked.missing), count):
                isolation = Isolation(asked.backend, frozenset(missing))
                yield _identity(config.task, agent, config.seed, config.split, isolation)


def _unlabelled(run: PlannedRun) -> str:
    config = run.config
    isolation = Isolation.parse(config.isolation)
    return _identity(config.task, replace(config.agent, label=""), config.seed, config.split, isolation)


def _identity(task: Task, agent: AgentConfig, seed: int, split: SplitSource, isolation: Isolation) -> str:
    """Return all that a run is, as text; of the environment its name, as which version it is of is checked later."""
    what = {
        "environment": task.environment.name,
        "task": {name: value for name, value in asdict(task).items() if name != "environment"},
        "agent": {name: value for name, value in asdict(agent).items() if name != "program_sha256"},
        "seed": seed,
        "split": split.value,
        "isolation": str(isolation),
    }
    return json.dumps(json.loads(dumps(what)), sort_keys=True)
