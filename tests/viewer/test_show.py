"""What show tells of a run under way, and of checkpoints that were submitted more than once."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from evopolicygym.analysis.run_tables import load_runs
from evopolicygym.core.event import CheckpointSelected, CloseReason, Event, RunClosed, RunFinished, RunStatus
from evopolicygym.core.submission import LoadError, SubmissionStatus
from evopolicygym.records.writer import RunWriter
from fakes import TIME, charged, held_out, opening, published, submitted, validated
from shell import Shell
from viewed import documents

pytestmark = pytest.mark.made_up

REFUSED = replace(
    published(0, SubmissionStatus.INIT_ERROR), error=LoadError(SubmissionStatus.INIT_ERROR, "ValueError: no room")
)
CLOSED: list[Event] = [
    *(opening(), charged(0), REFUSED, *submitted(1, [1.0], "a"), *submitted(2, [2.0], "b"), *submitted(3, [1.0], "a")),
    RunClosed(TIME, CloseReason.AGENT_ENDED),
]
FINISHED: list[Event] = [
    *(*CLOSED, *validated("a", [5.0, 5.0]), *validated("b", [1.0, 1.0]), CheckpointSelected(TIME, 3, "a", 5.0)),
    *(*held_out("a", [1.0, 2.0, 3.0]), RunFinished(TIME, RunStatus.SCORED, 2.0, 0.5773502691896257)),
]


def recorded(root: Path, events: list[Event]) -> RunWriter:
    """Write a run's record and return who holds it."""
    writer = RunWriter(root, events[0])
    for event in events[1:]:
        writer.record(event)
    return writer


def test_a_run_that_validates_could_play_its_candidates(shell: Shell, tmp_path: Path) -> None:
    """That one submission didn't load is said of that submission, and not of all."""
    recorded(tmp_path / "run", CLOSED).close()
    printed = shell.printed("show", tmp_path / "run")

    assert [
        line for line in printed.splitlines() if "submission 0" in line and "init_error" in line and "no room" in line
    ]
    assert not [line for line in printed.splitlines() if line.startswith("policy")]


def test_a_run_that_is_played_is_not_resumed(shell: Shell, tmp_path: Path) -> None:
    """While a process holds its lock, show says so; afterwards it proposes to resume."""
    with recorded(tmp_path / "run", CLOSED):
        playing, playing_json = shell.printed("show", tmp_path / "run"), shell.json("show", tmp_path / "run")
    stopped, stopped_json = shell.printed("show", tmp_path / "run"), shell.json("show", tmp_path / "run")

    assert [document["being_played"] for document in (playing_json, stopped_json)] == [True, False]
    assert ["evopolicygym resume" in text for text in (playing, stopped)] == [False, True]


def test_a_checkpoint_that_was_reached_before(shell: Shell, tmp_path: Path) -> None:
    """The latest of equal checkpoints is selected; where it was first reached, and how many differ, stands beside."""
    recorded(tmp_path / "run", FINISHED).close()
    printed, as_json = shell.printed("show", tmp_path / "run"), shell.json("show", tmp_path / "run")
    page = documents(tmp_path)("run/run")
    (row,) = load_runs(tmp_path / "run").runs

    (line,) = (line for line in printed.splitlines() if "submission 3" in line)
    assert re.findall(r"\d+", line.partition("mean")[0]) == ["3", "1", "4", "3", "2"]
    assert (as_json["first_reached_submission"], as_json["candidates"], as_json["distinct_checkpoints"]) == (1, 3, 2)
    names = ("selected_submission", "first_reached_submission", "distinct_checkpoints")
    assert [page[name] for name in names] == [row[name] for name in names] == [3, 1, 2]
