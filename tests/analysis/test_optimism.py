"""Selection's optimism is the validation mean less the held-out mean of the selected checkpoint."""

from pathlib import Path

import numpy as np
import pytest

from evopolicygym.analysis.published.score_tables import shipped
from records_of_runs import changed, real_document, write
from shell import Shell

pytestmark = pytest.mark.made_up


def test_shipped_runs_have_it() -> None:
    """The luckiest of many validation means is above the held-out mean of the same checkpoint, on average."""
    runs = [run for run in shipped("baselines").runs if (run.agent, run.task) == ("tuner", "parking")]
    found = [run.selection_optimism for run in runs]

    assert all(run.selection_optimism == run.validation_mean - run.score for run in runs)
    assert sum(each for each in found if each is not None) / 5 == pytest.approx(1.80, abs=0.01)


def test_the_leaderboard_shows_it_on_request(shell: Shell) -> None:
    """``leaderboard --show optimism`` has tasks by entries; JSON has it beside each score."""
    asked = ("leaderboard", "--tables", "baselines")
    printed = shell.printed(*asked, "--show", "optimism", "--format", "csv")
    rows = {row["entry"]: row for row in shell.json(*asked)["entries"]}

    assert printed.startswith("task,tuner (ours),tuner (ours)_low")
    assert rows["tuner"]["tasks"]["parking"]["selection_optimism"]["value"] == pytest.approx(1.80, abs=0.01)
    assert rows["Uniform random"]["tasks"]["parking"]["selection_optimism"] is None


def test_its_interval_is_over_the_cases_that_all_runs_share(tmp_path: Path, shell: Shell) -> None:
    """Where only cases vary, its standard error is that of both splits' cases, at any number of runs."""
    document = real_document(tmp_path / "real")
    of_cases = 6 * np.random.default_rng(1).normal(size=32)
    of_cases -= of_cases.mean()
    for seed in range(5):
        run = changed(document, "acrobot", "a", (of_cases - 100 + seed / 100).tolist(), seed)
        run["task"]["validation_cases"] = 16
        run["submissions"][0]["validation_mean"], run["submissions"][1]["validation_mean"] = -110.0, -97.0
        run["outcome"]["validation_mean"] = -97.0
        write(tmp_path / "runs", run)
    (row,) = [row for row in shell.json("leaderboard", tmp_path / "runs")["entries"] if row["entry"] == "a"]
    found = row["tasks"]["acrobot"]["selection_optimism"]

    assert found["standard_error"] == pytest.approx(of_cases.std(ddof=1) * (1 / 16 + 1 / 32) ** 0.5, rel=1e-3)
    assert found["interval"][0] < 0 < found["interval"][1]


@pytest.mark.parametrize("other", [None, -95.0])
def test_nothing_selected_has_none(tmp_path: Path, shell: Shell, other: float | None) -> None:
    """A run with one candidate, or with candidates of one mean, had no choice that could be too optimistic."""
    run = changed(real_document(tmp_path / "real"), "acrobot", "a", [-100.0, -90.0])
    run["submissions"][0]["validation_mean"], run["submissions"][1]["validation_mean"] = other, -95.0
    run["outcome"]["validation_mean"] = -95.0
    write(tmp_path / "runs", run)
    (row,) = [row for row in shell.json("leaderboard", tmp_path / "runs")["entries"] if row["entry"] == "a"]

    assert row["tasks"]["acrobot"]["selection_optimism"] is None


def test_show_has_it(tmp_path: Path, shell: Shell) -> None:
    """A run's outcome has it in JSON: the difference of the two means that it shows."""
    real_document(tmp_path / "real")
    found = shell.json("show", tmp_path / "real")
    outcome = found["outcome"]

    assert found["selection_optimism"] == pytest.approx(outcome["validation_mean"] - outcome["score"])
