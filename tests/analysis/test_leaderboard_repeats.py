"""Which runs are an entry's repeats: copies count once, experiments go by their names, and advice fits what differs."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from evopolicygym.analysis.ranking.comparability import TableFilter
from evopolicygym.analysis.ranking.score_table import score_table, score_tables
from evopolicygym.analysis.results import load_results
from evopolicygym.cli.main import app
from evopolicygym.core.errors import EvoPolicyGymError, UnknownName, UsageError
from records_of_runs import changed, real_document, write

pytestmark = pytest.mark.made_up

RETURNS = [-90.0, -80.0]


@pytest.fixture
def document(tmp_path: Path) -> dict[str, Any]:
    """Return a real run's document."""
    return real_document(tmp_path / "real")


def experiment(directory: Path, identity: str) -> Path:
    """Return the directory of an experiment."""
    directory.mkdir(parents=True)
    (directory / "experiment.json").write_text(json.dumps({"experiment": identity}) + "\n", encoding="utf-8")
    return directory


def labels(runs: Path) -> set[str]:
    table = score_table(load_results([runs]).runs, [], TableFilter(["experiment"], mix=True))
    return {entry.label for entry in table.entries if entry.runs}


def refusal(*runs: Path, by: tuple[str, ...] = ()) -> str:
    with pytest.raises(UsageError, match="not comparable") as refused:
        score_table(load_results(runs).runs, [], TableFilter(by))
    return str(refused.value)


def failing(*words: object) -> EvoPolicyGymError:
    left = CliRunner().invoke(app, [*map(str, words)])
    assert isinstance(left.exception, EvoPolicyGymError)
    return left.exception


def test_a_copy_counts_once(tmp_path: Path, document: dict[str, Any]) -> None:
    """A run's copy elsewhere is no other repeat; it is named among what is left out."""
    run = changed(document, "acrobot", "tuner", RETURNS)
    first = write(tmp_path / "runs", run).rename(tmp_path / "runs" / run["run_id"])
    second = write(tmp_path / "runs", changed(document, "acrobot", "tuner", RETURNS, seed=1))
    shutil.copytree(first, tmp_path / "runs" / "a" / "copy")
    found = load_results([tmp_path / "runs"])

    assert {run.root for run in found.runs} == {first, second}
    assert [one.root for one in found.problems] == [tmp_path / "runs" / "a" / "copy"]
    assert str(first) in found.problems[0].reason


def test_runs_that_happen_to_have_one_id_are_no_copies(tmp_path: Path, document: dict[str, Any]) -> None:
    """Two runs of a suite may have drawn the same id."""
    for seed in (0, 1):
        write(tmp_path / "runs", changed(document, "acrobot", "tuner", RETURNS, seed) | {"run_id": "same"})

    assert len(load_results([tmp_path / "runs"]).runs) == 2


def test_a_run_is_not_compared_with_its_copy(tmp_path: Path, document: dict[str, Any]) -> None:
    """A copy in another directory is the same run."""
    first = write(tmp_path / "runs", changed(document, "acrobot", "tuner", RETURNS))
    shutil.copytree(first, tmp_path / "copy")

    assert isinstance(failing("compare", first, tmp_path / "copy", tmp_path / "runs"), UsageError)


def test_an_experiment_is_called_by_its_name(tmp_path: Path, document: dict[str, Any]) -> None:
    """The directory that is the experiment's tells its name; where none is, its identity begins the same."""
    run = changed(document, "acrobot", "tuner", RETURNS) | {"experiment": "19815b9a" + "0" * 24}
    write(experiment(tmp_path / "runs" / "smoke", run["experiment"]) / "tuner" / "acrobot", run)
    write(tmp_path / "runs" / "smoke", changed(document, "acrobot", "tuner", RETURNS, 1) | {"experiment": "7" * 32})

    assert labels(tmp_path / "runs") == {"tuner, experiment smoke", "tuner, experiment 77777777"}


def test_two_experiments_of_one_name_are_told_apart(tmp_path: Path, document: dict[str, Any]) -> None:
    """Only then the beginning of the identity stands beside the name."""
    for place, identity in (("here", "1" * 32), ("there", "2" * 32)):
        below = experiment(tmp_path / "runs" / place / "smoke", identity)
        write(below / "tuner" / "acrobot", changed(document, "acrobot", "tuner", RETURNS) | {"experiment": identity})

    assert labels(tmp_path / "runs") == {"tuner, experiment smoke 11111111", "tuner, experiment smoke 22222222"}


def test_advice_fits_a_difference_of_budgets(tmp_path: Path, document: dict[str, Any]) -> None:
    """Runs of one experiment are not sent to name one experiment; entries may be told apart by their budget."""
    budgets = [changed(document, "acrobot", "tuner", RETURNS, seed) for seed in (0, 1)]
    budgets[1]["budget"] |= {"episodes": 9}
    runs = [write(tmp_path / "runs", one) for one in budgets]
    said = refusal(*runs)

    assert [word in said for word in ("experiment", "--group-by budget", "--allow-incomparable")] == [False, True, True]
    assert score_table(load_results(runs).runs, [], TableFilter(["budget"])).entry("tuner, budget 9")


def test_advice_fits_a_difference_of_cases(tmp_path: Path, document: dict[str, Any]) -> None:
    """What entries can't be told apart by is not offered, and an experiment is only named where there are several."""
    few, many = (changed(document, "acrobot", agent, RETURNS * count) for agent, count in (("a", 1), ("b", 2)))
    said = refusal(write(tmp_path / "runs", few), write(tmp_path / "runs", many))
    others = changed(document, "acrobot", "b", RETURNS) | {"experiment": "another", "commitment": "another"}
    elsewhere = refusal(write(tmp_path / "more", few), write(tmp_path / "more", others))

    assert [word in said for word in ("experiment", "--group-by", "--allow-incomparable")] == [False, False, True]
    assert "experiment" in elsewhere


def test_an_unknown_label_is_named_before_what_is_not_comparable(tmp_path: Path, document: dict[str, Any]) -> None:
    """A slip of the pen gets the names to choose from, not a lecture on budgets."""
    write(tmp_path / "runs", changed(document, "acrobot", "tuner", RETURNS))
    other = changed(document, "acrobot", "random", RETURNS)
    other["budget"] |= {"episodes": 9}
    write(tmp_path / "runs", other)
    unknown = failing("compare", "tuner", "radnom", tmp_path / "runs")

    assert isinstance(unknown, UnknownName)
    assert "'random'" in str(unknown)
    assert "not comparable" in str(failing("compare", "tuner", "random", tmp_path / "runs"))


def test_what_is_not_comparable_stands_side_by_side(tmp_path: Path, document: dict[str, Any]) -> None:
    """Runs of the public split beside private ones: two tables and no refusal, beside a shipped table too."""
    private = changed(document, "acrobot", "tuner", RETURNS)
    write(tmp_path / "runs", private)
    write(tmp_path / "runs", private | {"run_id": "b", "seed": 1, "split": "public", "commitment": "public cases"})
    shown = CliRunner().invoke(app, ["leaderboard", str(tmp_path / "runs"), "--tables", "paper"])
    told = CliRunner().invoke(app, ["leaderboard", str(tmp_path / "runs"), "--json"])

    assert shown.exit_code == 0
    assert "Leaderboard (private split)" in shown.stdout
    assert "Leaderboard (public split)" in shown.stdout
    tables = json.loads(told.stdout)["tables"]
    assert [(one["title"], len(one["entries"][0]["tasks"]["acrobot"]["runs"])) for one in tables] == [
        ("private split", 1), ("public split", 1),
    ]  # fmt: skip


def test_entries_told_apart_by_their_split_stand_in_one_table(tmp_path: Path, document: dict[str, Any]) -> None:
    """``--group-by split`` pools nothing of other cases, so it is not refused; what differs is said."""
    private = changed(document, "acrobot", "tuner", RETURNS)
    write(tmp_path / "runs", private)
    write(tmp_path / "runs", private | {"run_id": "b", "seed": 1, "split": "public", "commitment": "public cases"})
    table = score_table(load_results([tmp_path / "runs"]).runs, [], TableFilter(["split"]))

    assert [one.label for one in table.entries if one.runs] == ["tuner, split private", "tuner, split public"]
    assert any("different cases" in note for note in table.notes)


def test_tasks_of_one_split_stay_together(tmp_path: Path, document: dict[str, Any]) -> None:
    """Where splits differ on one task, runs of another task go with those of their own split."""
    for task, split in (("reacher", "public"), ("acrobot", "private"), ("acrobot", "public"), ("reacher", "private")):
        run = changed(document, task, "tuner", RETURNS)
        write(tmp_path / "runs", run | {"split": split, "commitment": f"{split} {task}", "run_id": f"{split}-{task}"})
    found = score_tables(load_results([tmp_path / "runs"]).runs, [])

    assert {title: [task.name for task in one.tasks] for title, one in found.items()} == {
        "public split": ["acrobot", "reacher"], "private split": ["acrobot", "reacher"],
    }  # fmt: skip
    assert all(run.split in title for title, one in found.items() for entry in one.entries for run in entry.runs)
