"""Selection's optimism is the validation mean less the held-out mean of the selected checkpoint."""

from pathlib import Path

import pytest

from evopolicygym.analysis.published.score_tables import shipped
from records_of_runs import real_document
from shell import Shell


def test_shipped_runs_have_it() -> None:
    """The luckiest of many validation means is above the held-out mean of the same checkpoint, on average."""
    runs = [run for run in shipped("baselines").runs if (run.label, run.task) == ("tuner", "parking")]
    found = [run.selection_optimism for run in runs]

    assert all(run.selection_optimism == run.validation_mean - run.score for run in runs)
    assert sum(each for each in found if each is not None) / 5 == pytest.approx(1.80, abs=0.01)


def test_the_leaderboard_shows_it_on_request(shell: Shell) -> None:
    """``leaderboard --optimism`` has tasks by entries; JSON has it beside each score."""
    asked = ("leaderboard", "--with", "baselines")
    printed = shell.printed(*asked, "--optimism", "--format", "csv")
    rows = {row["entry"]: row for row in shell.json(*asked)["entries"]}

    assert printed.startswith("task,tuner (ours),tuner (ours)_standard_error")
    assert rows["tuner"]["tasks"]["parking"]["selection_optimism"]["value"] == pytest.approx(1.80, abs=0.01)
    assert rows["Uniform random"]["tasks"]["parking"]["selection_optimism"] is None


def test_show_has_it(tmp_path: Path, shell: Shell) -> None:
    """A run's outcome has it in JSON: the difference of the two means that it shows."""
    real_document(tmp_path / "real")
    found = shell.json("show", tmp_path / "real")
    outcome = found["outcome"]

    assert found["selection_optimism"] == pytest.approx(outcome["validation_mean"] - outcome["score"])
