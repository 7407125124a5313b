"""What a run can be called by: a path, its id, the beginning of it, or ``latest``."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from evopolicygym.core.event import RunOpened
from evopolicygym.records.reader import find_paths
from evopolicygym.records.writer import RunWriter
from fakes import opening
from shell import Shell

OLD, MIDDLE, NEW = "20261120-060000-00aa", "20261121-060000-ab12", "20261121-070000-cd34"
BELOW = {OLD: "default/tuner/acrobot", MIDDLE: "default/random/reacher", NEW: "another/tuner/acrobot"}
SINGLE = ["show", "verify"]


def record(root: Path) -> Path:
    """Write the beginning of a run's record."""
    opened = opening()
    assert isinstance(opened, RunOpened)
    RunWriter(root, replace(opened, run_id=root.name)).close()
    return root


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory with three runs, below the one that the program is started in."""
    monkeypatch.chdir(tmp_path)
    for run_id, place in BELOW.items():
        record(tmp_path / "runs" / place / run_id)
    return tmp_path / "runs"


@pytest.mark.parametrize(
    ("name", "meant"), [("latest", NEW), (MIDDLE, MIDDLE), ("20261120", OLD), ("20261121-06", MIDDLE)]
)
def test_a_run_is_found_by_its_id(shell: Shell, runs: Path, name: str, meant: str) -> None:
    """A run's id, a beginning that no other has, and latest name a run below the directory runs."""
    found = shell.json("show", name)

    assert Path(found["run"]).resolve() == runs / BELOW[meant] / meant


def test_the_latest_of_one_second_is_the_one_that_began_last(shell: Shell, tmp_path: Path) -> None:
    """The ids of runs that began in one second sort at random; the latest is still the one that began last."""
    for age, end in ((20, "ffff"), (10, "0000"), (30, "aaaa")):
        journal = record(tmp_path / "runs" / f"20261121-060000-{end}") / "journal.jsonl"
        os.utime(journal, (1_800_000_000 - age,) * 2)
        journal.with_name("run.json").unlink(missing_ok=True)

    assert shell.json("show", "latest", "--runs", tmp_path / "runs")["run"].endswith("0000")


def test_runs_may_lie_elsewhere(shell: Shell, runs: Path) -> None:
    """--runs says below which directory ids and the latest run are looked for."""
    found = shell.json("show", "latest", "--runs", runs / "default")

    assert Path(found["run"]).name == MIDDLE


def test_a_path_overrides_an_id(shell: Shell, runs: Path) -> None:
    """What exists as a path is that path, whatever runs are called."""
    record(runs.parent / "latest")
    found = shell.json("show", "latest")

    assert Path(found["run"]).resolve() == runs.parent / "latest"


def test_a_run_that_has_only_its_document(shell: Shell, runs: Path) -> None:
    """A directory with a run.json alone is no run, and a verb says what it lacks."""
    root = runs / BELOW[NEW] / NEW
    (root / "journal.jsonl").rename(root / "run.json")
    left = shell("show", root)

    assert (left.code, NEW in left.err, "journal.jsonl" in left.err) == (2, True, True)
    assert NEW not in shell("show", "latest").err


@pytest.mark.parametrize("verb", ["show", "resume", "verify", "film", "diagnose", "post-hoc", "view", "leaderboard"])
def test_every_verb_asks_alike(shell: Shell, runs: Path, verb: str) -> None:  # noqa: ARG001 - three runs are there
    """Each verb that takes a run says which runs a beginning could mean, and leaves with 2."""
    left = shell(verb, "20261121")

    assert (left.code, left.out) == (2, "")
    assert "20261121" in left.err
    assert all(f"runs/{BELOW[run_id]}/{run_id}\n" in left.err for run_id in (MIDDLE, NEW))
    assert OLD not in left.err


def test_copies_of_a_run(shell: Shell, runs: Path) -> None:
    """The latest run and its copy beside it have one id: which of them is meant is asked."""
    record(runs / "copies" / NEW)
    left = shell("show", "latest")

    assert (left.code, left.err.count(NEW)) == (2, 2)


@pytest.mark.parametrize("verb", SINGLE)
def test_an_id_that_no_run_has(shell: Shell, runs: Path, verb: str) -> None:  # noqa: ARG001 - three runs are there
    """What no run is called leads to the ids that there are, the newest first."""
    left = shell(verb, "2025")

    assert left.code == 2
    assert "2025" in left.err
    assert left.err.index(NEW) < left.err.index(MIDDLE) < left.err.index(OLD)


@pytest.mark.parametrize("name", ["latest", "2026"])
def test_no_run_at_all(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Where there is no run, the message says where was looked and how to look elsewhere."""
    monkeypatch.chdir(tmp_path)
    nowhere = shell("show", name)
    (tmp_path / "runs").mkdir()
    empty = shell("show", name)

    assert (nowhere.code, empty.code) == (2, 2)
    assert "--runs DIR" in nowhere.err
    assert "--runs DIR" in empty.err


def test_many_runs_are_meant_alike(shell: Shell, runs: Path) -> None:
    """A verb that takes several runs takes their ids beside directories."""
    found = shell.json("diagnose", "latest", runs / "default", "--only", "budget")

    assert {Path(one["run"]).name for one in found["runs"]} | {Path(one["run"]).name for one in found["problems"]} == {
        *BELOW
    }


def test_where_runs_are_looked_for(runs: Path) -> None:
    """Without a name it is all below a directory, but for the default one where none are needed."""
    below = runs.relative_to(Path.cwd()) if runs.is_absolute() else runs
    found = [find_paths(None, place, needed=needed) for place in (below, "other") for needed in (True, False)]

    assert below == Path("runs")
    assert found == [[below], [], [Path("other")], [Path("other")]]
    assert find_paths([below, NEW, MIDDLE[:-4]], below) == [
        below,
        below / BELOW[NEW] / NEW,
        below / BELOW[MIDDLE] / MIDDLE,
    ]
