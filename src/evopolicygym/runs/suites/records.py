"""The records of a suite's runs, and their results.

A record is matched to a planned run by its content: agent, task, seed and cases. No other list of runs is kept, so a
killed suite loses none. A record counts only if its high-water mark shows that this user played it on this machine,
and, once finished, if it verifies. A finished record of a shard counts if the experiment lists it as gathered. Any
other record may have been planted, and its run is played again.
"""

import json
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from itertools import combinations
from pathlib import Path

from evopolicygym.core.agent import AgentConfig, AgentEnd
from evopolicygym.core.cases import Split, SplitSource
from evopolicygym.core.errors import RecordError, UsageError
from evopolicygym.core.event import AgentEnded, RunOpened, RunStopped, StopReason
from evopolicygym.core.options import AUTO
from evopolicygym.core.rollout import Isolation
from evopolicygym.core.strict_json import dumps
from evopolicygym.core.task import Task
from evopolicygym.records import journal, rollback_guard
from evopolicygym.records.experiment import ledger_of
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import RunRecord, experiment_name, find_runs, read_run, record_of
from evopolicygym.records.run_document import is_current
from evopolicygym.records.verify import DOCUMENT, findings
from evopolicygym.runs.suites.suite import PlannedRun

EXPECTED_ENDS = {AgentEnd.FINISHED.value, AgentEnd.STOPPED.value}
MESSAGE_LENGTH = 500
"""The largest length of a failed run's message."""


class PlannedRunVerdict(StrEnum):
    """The state of a planned run."""

    FINISHED = "finished"
    """It has a result, which is no score if nothing playable was submitted."""
    FAILED = "failed"
    """It was stopped for a reason outside the agent; it can be resumed."""
    INTERRUPTED = "interrupted"
    WAITING = "waiting"
    """It has not started."""


@dataclass(frozen=True, slots=True)
class PlannedRunStopped:
    """A run that its process stopped before its end or could not open."""

    reason: str
    """``interrupted``, or the kind of error."""
    message: str = ""


@dataclass(frozen=True, slots=True)
class PlannedRunResult:
    """A planned run and its result."""

    planned: PlannedRun
    verdict: PlannedRunVerdict = PlannedRunVerdict.WAITING
    root: Path | None = None
    score: float | None = None
    standard_error: float | None = None
    reason: str = ""
    """Why it failed, or how its agent ended if not as expected."""
    message: str = ""
    returns: tuple[float, ...] = ()
    """Held-out returns in the split's order."""


def is_own(record: RunRecord) -> bool:
    """Return whether this user played a run on this machine, and its record verifies if finished.

    Also true for a finished run that this user gathered into its experiment's directory, if all of it verifies.
    """
    root = record.paths.root
    if not rollback_guard.is_own_run(root):
        return _is_gathered(record) and all(finding.ok for finding in findings(root))
    if record.state.finished is None:
        return True
    return all(finding.ok or finding.settled_by_replay or finding.name == DOCUMENT for finding in findings(root))


def _is_gathered(record: RunRecord) -> bool:
    """Return whether a finished run is listed as gathered by the experiment in whose directory it lies."""
    opened, root = record.state.opened, record.paths.root
    if record.state.finished is None or not experiment_name(root, opened.experiment):
        return False
    with suppress(RecordError, UsageError):
        ledger = ledger_of(opened.experiment)
        return ledger is not None and ledger.gathered.get(opened.run_id) in record.hashes
    return False


def find_results(
    plan: Iterable[PlannedRun], directory: Path, counts: Callable[[RunRecord], bool] = is_own
) -> dict[int, PlannedRunResult]:
    """Return the result of each planned run by number, from the records in its experiment's directory.

    Records for which ``counts`` is false are skipped. Of several records of a planned run, the one opened first counts.
    Raises ``RecordError`` if a record can't be read, because its run is then unknown.
    """
    plan = tuple(plan)
    wanted = identities_by_run(plan)
    asked = {identity for identities in wanted.values() for identity in identities}
    records: dict[str, RunRecord] = {}
    for root in find_runs(directory):
        record = _read_record(root)
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
        results[run.number] = PlannedRunResult(run) if record_or_none is None else _checked_result(run, record_or_none)
    return results


def identities_by_run(plan: Iterable[PlannedRun]) -> dict[int, tuple[str, ...]]:
    """Return the identities of matching records of each run by number, an exact match first."""
    plan = tuple(plan)
    unique = {identity for identity, count in Counter(map(_unlabelled, plan)).items() if count == 1}
    return {run.number: tuple(_planned_identities(run, unique)) for run in plan}


def _checked_result(run: PlannedRun, record: RunRecord) -> PlannedRunResult:
    """Return a record's result; it is interrupted if its ``run.json`` is missing or out of date.

    Resuming a finished run writes ``run.json`` again.
    """
    outcome = result_of_record(run, record)
    if outcome.verdict is PlannedRunVerdict.FINISHED and not is_current(record.paths):
        return replace(outcome, verdict=PlannedRunVerdict.INTERRUPTED)
    return outcome


def result_of_record(run: PlannedRun, record: RunRecord) -> PlannedRunResult:
    """Return a run's result from its record."""
    state, root = record.state, record.paths.root
    if state.finished is not None:
        ends = [event for event in record.events if isinstance(event, AgentEnded)]
        problem = (ends[-1].end, ends[-1].message) if ends and ends[-1].end not in EXPECTED_ENDS else ("", "")
        returns = state.rollout(Split.HELD_OUT, state.selected.checkpoint).returns if state.selected else ()
        return PlannedRunResult(
            run, PlannedRunVerdict.FINISHED, root, state.finished.score, state.finished.standard_error, *problem,
            returns=tuple(returns),
        )  # fmt: skip
    last = record.events[-1]
    if isinstance(last, RunStopped) and last.reason is not StopReason.INTERRUPTED:
        return PlannedRunResult(run, PlannedRunVerdict.FAILED, root, reason=_reason(record, last), message=last.message)
    return PlannedRunResult(run, PlannedRunVerdict.INTERRUPTED, root)


def result_of_process(
    run: PlannedRun, root: Path | None, stopped: PlannedRunStopped | None, exit_code: int, *, played: bool
) -> PlannedRunResult:
    """Return the result of a run whose process has ended: from its record, its last message, or its exit code.

    ``played`` tells whether the process opened the run, so that the record can be its own.
    """
    recorded = result_of_record(run, read_run(root)) if root else PlannedRunResult(run)
    if recorded.verdict is PlannedRunVerdict.FINISHED or (recorded.verdict is PlannedRunVerdict.FAILED and played):
        return recorded
    if stopped is not None:
        verdict = (
            PlannedRunVerdict.INTERRUPTED if stopped.reason == StopReason.INTERRUPTED else PlannedRunVerdict.FAILED
        )
        return PlannedRunResult(run, verdict, root, reason=stopped.reason, message=stopped.message[:MESSAGE_LENGTH])
    how = f"killed by signal {-exit_code}" if exit_code < 0 else f"exit code {exit_code}"
    return PlannedRunResult(
        run, PlannedRunVerdict.FAILED, root, reason="process ended", message=f"its process ended unexpectedly, {how}"
    )


def _read_record(root: Path) -> RunRecord | None:
    """Return a run's record; None if it was killed before it was opened."""
    paths = RunPaths(root)
    try:
        contents = journal.read(paths.journal)
        return record_of(paths, contents) if contents.events else None
    except RecordError as error:
        raise RecordError(
            f"{error}\nIts run of the suite is unknown: repair {root}, or move it away to play the run again."
        ) from error


def _reason(record: RunRecord, stop: RunStopped) -> str:
    """Return why a run was stopped, or how its agent paused."""
    pauses = {end.value for end in AgentEnd if end.pauses}
    ends = [event.end for event in record.events if isinstance(event, AgentEnded)]
    return ends[-1] if stop.reason is StopReason.AGENT and ends and ends[-1] in pauses else stop.reason.value


def record_identities(opened: RunOpened) -> tuple[str, ...]:
    """Return the identities of a record: with its sandbox backend and with ``auto``, and the same features missing."""
    played = Isolation.parse(opened.isolation)
    return tuple(
        _identity(opened.task, opened.agent, opened.seed, opened.split, isolation)
        for isolation in (played, replace(played, backend=AUTO))
    )


def _planned_identities(run: PlannedRun, unique: Container[str]) -> Iterator[str]:
    """Yield the identities of matching records of a run: allowed missing features may have been present.

    A record without a label matches a labelled run if no other run of the suite differs only in its label.
    """
    config = run.config
    asked = Isolation.parse(config.isolation)
    bare = [replace(config.agent, label="")] if config.agent.label and _unlabelled(run) in unique else []
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
    """Return the identity of a run as text, with only the environment's name, because versions are checked later."""
    what = {
        "environment": task.environment.name,
        "task": {name: value for name, value in asdict(task).items() if name != "environment"},
        "agent": {name: value for name, value in asdict(agent).items() if name != "program_sha256"},
        "seed": seed,
        "split": split.value,
        "isolation": str(isolation),
    }
    return json.dumps(json.loads(dumps(what)), sort_keys=True)
