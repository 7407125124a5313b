"""``evopolicygym diagnose``: a real run and many, for a person and for a script."""

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from diagnosed import known_run, recorded
from evopolicygym.analysis import source
from evopolicygym.analysis.diagnostic import DIAGNOSTICS
from evopolicygym.analysis.lineage.program import starter
from evopolicygym.analysis.source import Bundle, read_bundle
from evopolicygym.cli.main import app
from evopolicygym.core.errors import EvoPolicyGymError, UsageError
from whole_runs import config, played

pytestmark = pytest.mark.made_up


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have tables of 160 columns."""
    monkeypatch.setenv("COLUMNS", "160")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Return the run whose numbers are known."""
    return recorded(tmp_path / "runs" / "one", known_run()).paths.root


def diagnose(*arguments: object) -> str:
    """Return what the program printed."""
    left = typed(*arguments)
    assert left.exit_code == 0, left.output
    return left.output


def typed(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["diagnose", *map(str, arguments)])


def test_programs_are_read_once(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All diagnostics of a run share what they read of its checkpoints: the files of each are read once."""
    reads = list[Path]()

    def read(directory: Path, *others: Any) -> Bundle | None:
        reads.append(directory)
        return read_bundle(directory, *others)

    starter()
    monkeypatch.setattr(source, "read_bundle", read)
    diagnose(run)

    assert sorted(path.name for path in reads) == ["a", "b", "c", "d"]


def test_a_real_run(tmp_path: Path) -> None:
    """A run that the tuner has played on cartpole is told by every diagnostic, from its files alone."""
    root = played(config(tmp_path / "runs", agent="tuner", budget=6)).paths.root

    text, document = diagnose(root), json.loads(diagnose(root, "--json"))

    assert all(name in text for name in DIAGNOSTICS.names())
    found = document["runs"][0]
    assert set(found) == {"run", *DIAGNOSTICS.names()}
    assert found["budget"]["spent"] == found["learning_curve"]["points"][-1]["spent"] == 6
    assert (
        len(found["edits"]["submissions"]) == len(found["code"]["submissions"]) == len(found["budget"]["submissions"])
    )
    assert {one["edit_kind"] for one in found["edits"]["submissions"][1:]} <= {"parametric", "none", "revert"}
    assert found["generalisation"]["checkpoints"]
    assert document["together"]["edits"][0]["paper structural"] == 0


def test_one_run_by_submission(run: Path) -> None:
    """Of one run there is a row for each submission, and a line in short."""
    lines = diagnose(run, "--only", "edits").splitlines()

    assert lines[0].split() == ["edits"]
    assert [line.split()[:3] for line in lines[2:7]] == [
        ["0", "starter", "structural"],
        ["1", "0", "parametric"],
        ["2", "1", "structural"],
        ["3", "1", "structural"],
        ["4", "0", "revert"],
    ]
    assert "0.333" in " ".join(lines[7:])


def test_many_runs_by_entry_and_kind(run: Path) -> None:
    """Of all runs below a directory there is a row for each entry and kind of task."""
    events = known_run()
    recorded(run.parent / "two", [replace(events[0], run_id="two", seed=7), *events[1:]])

    rows = list(csv.DictReader(diagnose(run.parent, "--only", "budget", "--format", "csv").splitlines()))

    assert {(row["diagnostic"], row["entry"], row["kind"], row["runs"]) for row in rows} == {
        ("budget", "scripted", "tuning", "2")
    }
    assert {row["measure"]: row["value"] for row in rows} == {
        "submissions": "5.0",
        "episodes_a_submission": "2.0",
        "distinct_cases": "5.0",
        "repeated_episodes": "5.0",
        "selected_at": "8.0",
        "spent_after": "2.0",
        "unspent": "0.0",
    }


def test_one_damaged_run_of_many(run: Path) -> None:
    """A run that can't be read, or isn't finished, is named and left out; alone, it is an error or is told as it is."""
    finished = known_run()
    recorded(run.parent / "open", [event for event in finished if event is not finished[-1]])
    (recorded(run.parent / "torn", finished).paths.journal).write_text("no journal\n")
    left = typed(run.parent, "--only", "budget,cost")
    document = json.loads(diagnose(run.parent, "--only", "budget,cost", "--json"))

    assert left.exit_code == 0
    assert [one["run"] for one in document["runs"]] == [str(run)]
    assert [Path(one["run"]).name for one in document["problems"]] == ["open", "torn"]
    assert "not finished" in document["problems"][0]["reason"]
    assert "not finished" in left.stderr
    assert typed(run.parent / "torn").exit_code != 0
    assert diagnose(run.parent / "open", "--only", "budget")


def test_a_run_that_is_named_twice_counts_once(run: Path) -> None:
    """A run's directory and one above it mean the same run."""
    document = json.loads(diagnose(run, run.parent, "--only", "cost", "--json"))

    assert [one["run"] for one in document["runs"]] == [str(run)]
    assert document["runs"][0]["cost"]["money"] == 0.5


def test_markdown(run: Path) -> None:
    """Tables are written for a page, and what a policy said can't break them."""
    lines = diagnose(run, "--only", "failures", "--format", "markdown").splitlines()

    assert lines[0] == "**failures**"
    assert lines[3] == "| ---: | --- | ---: | --- | --- | --- |"
    assert lines[6] == "| 2 | import\\_error | 0 |  | yes | it can't |"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--only", "edit"], "'edits'"),
        (["--only", "nowhere:DIAGNOSTIC"], "nowhere"),
    ],
)
def test_what_can_t_be_diagnosed_is_told(run: Path, arguments: list[str], named: str) -> None:
    """A diagnostic that isn't there is refused by name."""
    left = typed(run, *arguments)

    assert isinstance(left.exception, EvoPolicyGymError)
    assert left.exception.exit_code == 2
    assert named in str(left.exception)


def test_where_there_is_no_run(tmp_path: Path) -> None:
    """A directory without runs is refused by name."""
    left = typed(tmp_path)

    assert isinstance(left.exception, UsageError)
    assert str(tmp_path) in str(left.exception)


def test_a_diagnostic_from_outside(run: Path) -> None:
    """A diagnostic of another package is named as package.module:ATTRIBUTE."""
    name = "evopolicygym.analysis.diagnostics.budget:DIAGNOSTIC"

    assert "episodes a submission" in diagnose(run, "--only", name)
