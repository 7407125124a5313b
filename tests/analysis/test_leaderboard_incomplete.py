"""Entries that lack tasks: what they are measured by, and that a rank of theirs is seen to be no place."""

from pathlib import Path
from typing import Any

import pytest

from evopolicygym.analysis.ranking.bootstrap import Resampler
from evopolicygym.analysis.ranking.leaderboard import Leaderboard, leaderboard
from evopolicygym.analysis.ranking.pairing import pairing
from evopolicygym.analysis.ranking.score_table import ScoreTable, score_table
from evopolicygym.analysis.results import load_results
from evopolicygym.analysis.tables.contents import IN_BRACKETS, leaderboard_document, task_tables
from evopolicygym.core.task import Anchor
from evopolicygym.specs import catalog
from records_of_runs import changed, real_document, write

pytestmark = pytest.mark.made_up

WORST = -500.0


def anchor(task: str) -> Anchor:
    found = catalog.load(task).random_anchor
    assert found is not None
    return found


def table_of(below: Path, runs: dict[tuple[str, str], list[float]]) -> ScoreTable:
    """Return the table of runs, by agent and task."""
    document = real_document(below / "real")
    for (agent, task), returns in runs.items():
        write(below / "runs", changed(document, task, agent, returns))
    return score_table(load_results([below / "runs"]).runs, [])


@pytest.fixture
def table(tmp_path: Path) -> ScoreTable:
    """Return ``weak`` on two tasks, on acrobot no better than random, beside ``strong`` on acrobot alone."""
    good = anchor("reacher").mean + 1
    return table_of(tmp_path, {
        ("weak", "acrobot"): [WORST, WORST], ("weak", "reacher"): [good, good + 1],
        ("strong", "acrobot"): [-90.0, -95.0],
    })  # fmt: skip


def board_of(table: ScoreTable) -> Leaderboard:
    return leaderboard(table, resampler=Resampler(200))


def on_acrobot(board: Leaderboard) -> dict[str, Any]:
    return {one.entry.label: one.tasks["acrobot"] for one in board.standings}


def test_where_no_complete_agent_beats_random_all_are_the_scale(table: ScoreTable) -> None:
    """An incomplete entry that is far better than random is not at 0, and the complete one is."""
    found = on_acrobot(board_of(table))

    assert found["strong"].normalised.value == 1
    assert found["strong"].normalised.interval.high > 0
    assert found["weak"].normalised.value == 0


def test_a_pair_has_the_same_scale(table: ScoreTable) -> None:
    """``compare`` normalises by the leaderboard's scale; below uniform random nothing is clipped."""
    found = pairing(table, "strong", "weak", Resampler(100)).tasks[0]

    assert found.normalised == pytest.approx(407.5 / (-92.5 - anchor("acrobot").mean))


def test_where_nobody_beats_random_there_is_no_scale(tmp_path: Path) -> None:
    """No normalised score is told, rather than one of 0; other tasks' are."""
    good = anchor("reacher").mean + 1
    runs = {("one", "acrobot"): [WORST, WORST], ("one", "reacher"): [good, good + 1]}
    board = board_of(table_of(tmp_path, runs))
    (one,) = (each for each in board.standings if each.entry.label == "one")

    assert [note for note in board.notes if "acrobot" in note and "normalised" in note]
    assert one.tasks["acrobot"].normalised is None
    assert one.normalised is not None
    assert one.normalised.value == 1


def test_a_rank_without_a_place_stands_in_brackets(table: ScoreTable) -> None:
    """In a task's table a reader sees which of two that are first is out of the competition, and a note says why."""
    board = board_of(table)
    acrobot, reacher = task_tables(board)
    ranks = {row[1]: row[0] for row in acrobot.rows}

    assert (ranks["strong"], ranks["Uniform random"], ranks["weak"]) == ("(1)", 1, 2)
    assert (acrobot.notes, reacher.notes) == ((IN_BRACKETS,), ())


def test_programs_are_told_too(table: ScoreTable) -> None:
    """JSON says of each rank whether it counts among the others."""
    entries = {one["entry"]: one for one in leaderboard_document(board_of(table))["entries"]}

    assert not entries["strong"]["tasks"]["acrobot"]["counted"]
    assert entries["weak"]["tasks"]["acrobot"]["counted"]
