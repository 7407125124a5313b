"""What never differed is unknown, not certain: equal returns, rarely solved tasks, success rates of 0 and 100 %."""

from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from records_of_runs import changed, real_document, write
from shell import Shell

pytestmark = pytest.mark.made_up

CASES = 16


def task_score(tmp_path: Path, shell: Shell, solved: list[int]) -> dict[str, Any]:
    """Return the score of an agent whose runs, one each, solve so many of the cases: a return of 1, else of 0."""
    document = real_document(tmp_path / "real")
    for seed, count in enumerate(solved):
        run = changed(document, "door_key", "a", [1.0] * count + [0.0] * (CASES - count), seed)
        run["outcome"]["success_rate"] = count / CASES
        write(tmp_path / "runs", run)
    board = shell.json("leaderboard", tmp_path / "runs")
    found: dict[str, Any] = next(row for row in board["entries"] if row["entry"] == "a")["tasks"]["door_key"]
    return found


@pytest.mark.parametrize(("solved", "rate"), [([0, 0, 0], 0.0), ([CASES] * 2, 1.0), ([0], 0.0)])
def test_equal_returns_have_no_interval(tmp_path: Path, shell: Shell, solved: list[int], rate: float) -> None:
    """Where all returns are equal, neither the mean nor its score has an interval; the success rate has one."""
    found = task_score(tmp_path, shell, solved)
    low, high = found["success_interval"]

    assert (found["mean"], found["standard_error"], found["interval"], found["interval_covers"]) == (rate, *[None] * 3)
    assert found["rank_score"]["interval"] is None
    assert not found["normalised"] or found["normalised"]["interval"] is None
    assert (low if rate else high) == pytest.approx(abs(rate - stats.beta.ppf(0.975, 1, CASES)), rel=1e-3)
    assert (high if rate else low) == rate


@pytest.mark.parametrize("solved", [[1], [1, 0], [0, 1, 0], [1, 0, 0, 0, 0]])
def test_a_rarely_solved_task_has_a_wide_interval(tmp_path: Path, shell: Shell, solved: list[int]) -> None:
    """One solved episode says that episodes are solved now and then, not how seldom."""
    found = task_score(tmp_path, shell, solved)
    trials = CASES * len(solved)

    assert found["mean"] == pytest.approx(1 / trials)
    assert found["interval"][1] >= stats.beta.ppf(0.975, 2, trials - 1) - 1e-3
    assert found["success_interval"][0] < 1 / trials < found["success_interval"][1]


def test_scoring_as_random_does_is_no_win(tmp_path: Path, shell: Shell) -> None:
    """Where an agent solves nothing, as uniform random, nobody has won the task."""
    task_score(tmp_path, shell, [0, 0])
    rows = {row["entry"]: row for row in shell.json("leaderboard", tmp_path / "runs")["entries"]}

    assert (rows["a"]["tasks"]["door_key"]["rank"], rows["a"]["wins"], rows["Uniform random"]["wins"]) == (1, 0, 0)


def test_the_success_rate_over_tasks_has_an_interval(tmp_path: Path, shell: Shell) -> None:
    """It reaches from the mean as far as those of the tasks, squared and added, and has a width at 0 and 100 %."""
    document = real_document(tmp_path / "real")
    for task, count in (("door_key", CASES), ("key_corridor", 0)):
        run = changed(document, task, "a", [1.0] * count + [0.0] * (CASES - count))
        run["outcome"]["success_rate"] = count / CASES
        write(tmp_path / "runs", run)
    (found,) = (row for row in shell.json("leaderboard", tmp_path / "runs")["entries"] if row["entry"] == "a")
    reach = (1 - stats.beta.ppf(0.025, CASES, 1)) / 2

    assert found["success_rate"] == 0.5
    assert found["success_interval"] == pytest.approx([0.5 - reach, 0.5 + reach], rel=1e-3)
    assert "50% [3" in shell.printed("leaderboard", tmp_path / "runs")
