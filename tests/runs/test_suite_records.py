"""Which record is of which planned run, and what it says of it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evopolicygym.core.agent import AgentConfig, AgentEnd
from evopolicygym.core.errors import RecordError
from evopolicygym.core.event import AgentEnded, AgentStarted, Event, RunResumed, RunStopped, StopReason
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.run_document import document_text
from evopolicygym.runs.suites.records import (
    PlannedRunResult,
    PlannedRunStopped,
    PlannedRunVerdict,
    find_results,
    result_of_process,
)
from evopolicygym.runs.suites.suite import PlannedRun, plan
from fakes import TIME, opening, whole_run
from planned_records import lay, opened
from suites import suite


@pytest.fixture
def run(tmp_path: Path) -> PlannedRun:
    """Return a planned run of an agent with a model and an option."""
    agents = [{"name": "codex", "model": "a", "effort": "low", "options": {"quiet_s": 5}}]
    return plan(suite(tmp_path, agents=agents))[0]


def only(run: PlannedRun, place: Path) -> PlannedRunResult:
    """Return what is found of a planned run."""
    return find_results([run], place, lambda _record: True)[run.number]


PAUSED: list[Event] = [AgentStarted(TIME, 0), AgentEnded(TIME, 0, AgentEnd.LIMITED.value, "come back later")]
BY_LAST_EVENTS = {
    "killed": ([], PlannedRunVerdict.INTERRUPTED, ""),
    "interrupted": ([RunStopped(TIME, StopReason.INTERRUPTED)], PlannedRunVerdict.INTERRUPTED, ""),
    "limited": (
        [*PAUSED, RunStopped(TIME, StopReason.AGENT, "AgentError: later")],
        PlannedRunVerdict.FAILED,
        "limited",
    ),
    "not started": (
        [RunStopped(TIME, StopReason.AGENT, "AgentError: no program")],
        PlannedRunVerdict.FAILED,
        "agent_error",
    ),
    "simulator": ([*PAUSED, RunStopped(TIME, StopReason.ENVIRONMENT, "no")], PlannedRunVerdict.FAILED, "env_error"),
    "disk": ([RunStopped(TIME, StopReason.STORAGE, "no room")], PlannedRunVerdict.FAILED, "not_stored"),
    "taken up and killed": (
        [RunStopped(TIME, StopReason.STORAGE), RunResumed(TIME)],
        PlannedRunVerdict.INTERRUPTED,
        "",
    ),
}


@pytest.mark.parametrize(("events", "verdict", "reason"), BY_LAST_EVENTS.values(), ids=BY_LAST_EVENTS)
def test_what_a_record_says(
    run: PlannedRun, tmp_path: Path, events: list[Event], verdict: PlannedRunVerdict, reason: str
) -> None:
    """A run that was put down is told with why, in a word; how its agent paused says more than that it failed."""
    root = lay(tmp_path / "records" / "run", [opened(run), *events])
    came = only(run, tmp_path / "records")

    assert (came.verdict, came.reason, came.root) == (verdict, reason, root)


def test_a_finished_record(run: PlannedRun, tmp_path: Path) -> None:
    """A run that is finished is reported with its score; one whose ``run.json`` doesn't say so is to be resumed."""
    run = replace(run, config=replace(run.config, task=opening().task, agent=opening().agent, split=opening().split))
    paths = RunPaths(lay(tmp_path / "records" / "run", whole_run()))
    before = only(run, tmp_path / "records")
    paths.document.write_text(document_text(paths), encoding="utf-8")
    came = only(run, tmp_path / "records")

    assert before.verdict is PlannedRunVerdict.INTERRUPTED
    assert (came.verdict, came.score is not None, came.reason) == (PlannedRunVerdict.FINISHED, True, "")


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 1},
        {"agent": AgentConfig("codex", "b", {"quiet_s": 5}, effort="low")},
        {"agent": AgentConfig("codex", "a", {"quiet_s": 6}, effort="low")},
        {"agent": AgentConfig("codex", "a", {"quiet_s": 5}, effort="high")},
        {"task": opening().task},
    ],
)
def test_a_record_of_another_run(run: PlannedRun, tmp_path: Path, changes: dict[str, Any]) -> None:
    """A record with another seed, model, option, effort or task is none of this run's."""
    lay(tmp_path / "records" / "run", [replace(opened(run), **changes)])

    assert only(run, tmp_path / "records").verdict is PlannedRunVerdict.WAITING


def test_isolation_that_was_asked_for(run: PlannedRun, tmp_path: Path) -> None:
    """A record belongs to whoever leaves the isolation open, and to whoever asks for the one that it has."""
    lay(tmp_path / "records" / "run", [opened(run)])  # at level none
    asked = {
        level: replace(run, config=replace(run.config, isolation=level)) for level in ("auto", "none", "bubblewrap")
    }

    assert {level: only(one, tmp_path / "records").verdict for level, one in asked.items()} == {
        "auto": PlannedRunVerdict.INTERRUPTED,
        "none": PlannedRunVerdict.INTERRUPTED,
        "bubblewrap": PlannedRunVerdict.WAITING,
    }


def test_several_records_of_one_run(run: PlannedRun, tmp_path: Path) -> None:
    """Of several records of one run, the one that was opened first counts, whatever came of them."""
    for name, hour in (("a", "03"), ("b", "01"), ("c", "02")):
        lay(tmp_path / "records" / name, [opened(run, time=f"2026-01-01T{hour}:00:00.000Z")])

    assert only(run, tmp_path / "records").root == tmp_path / "records" / "b"


def test_records_that_tell_nothing(run: PlannedRun, tmp_path: Path) -> None:
    """A run that was killed before it was opened counts as none; a damaged record is named, as it may be any."""
    lay(tmp_path / "records" / "run", [])
    assert only(run, tmp_path / "records").verdict is PlannedRunVerdict.WAITING

    damaged = lay(tmp_path / "records" / "damaged", [opened(run), *PAUSED])
    journal = damaged / "journal.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b'"turn":0', b'"turn":1', 1))
    with pytest.raises(RecordError, match=str(damaged)):
        only(run, tmp_path / "records")


def test_what_a_process_leaves(run: PlannedRun, tmp_path: Path) -> None:
    """What was said last counts where the record has nothing newer, and else how the process ended."""
    root = lay(tmp_path / "records" / "run", [opened(run), RunStopped(TIME, StopReason.STORAGE, "no room")])
    refused = PlannedRunStopped("RecordError", "other versions")

    assert result_of_process(run, root, refused, 1, played=True).reason == "not_stored"
    assert result_of_process(run, root, refused, 1, played=False).reason == "RecordError"
    assert (
        result_of_process(run, None, PlannedRunStopped("interrupted"), 1, played=False).verdict
        is PlannedRunVerdict.INTERRUPTED
    )
    assert result_of_process(run, None, None, -9, played=False).message.endswith("signal 9")
    assert result_of_process(run, None, None, 3, played=False).message.endswith("exit code 3")


@pytest.mark.parametrize(
    ("allow_missing", "recorded", "found_there"),
    [
        ([], "bubblewrap", 1),
        ([], "bubblewrap without seccomp", 0),
        (["seccomp"], "bubblewrap", 1),
        (["seccomp", "landlock"], "process without seccomp", 1),
    ],
)
def test_a_record_lacks_no_wall_that_was_not_waived(
    allow_missing: list[str], recorded: str, found_there: int, tmp_path: Path
) -> None:
    """A run that was played without a wall belongs to a suite only where the suite waives that wall."""
    planned = plan(suite(tmp_path, agents=[{"name": "tuner"}], allow_missing=allow_missing))[0]
    lay(tmp_path / "place" / "one", [opened(planned, isolation=recorded)])

    assert [only(planned, tmp_path / "place").root].count(tmp_path / "place" / "one") == found_there
