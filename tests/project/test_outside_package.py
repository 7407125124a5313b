"""A package of somebody else's adds a part of every kind: a file and an entry point each, and no edit of ours.

The package is `tests/support/installed/`, which is laid out as pip installs one.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from places import ROOT

INSTALLED = ROOT / "tests" / "support" / "installed"


def call(*words: object) -> "subprocess.CompletedProcess[str]":
    """Run the program where the package is installed."""
    path = f"{INSTALLED}{os.pathsep}{os.environ.get('PYTHONPATH', '')}".rstrip(os.pathsep)
    line = [sys.executable, "-m", "evopolicygym", *map(str, words)]
    environment = {**os.environ, "PYTHONPATH": path, "COLUMNS": "200"}
    return subprocess.run(line, env=environment, capture_output=True, text=True, timeout=400, check=False)


def printed(*words: object) -> str:
    """Return what a command printed; it must end well."""
    done = call(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Return a run of the outside environment, played by the outside agent with the outside executor and backend."""
    parts = ("--agent", "walker", "--isolation", "fence", "--executor", "next_door")
    sizes = ("--budget", 4, "--validation", 1, "--held-out", 2)
    printed("run", "hill", *parts, *sizes, "--quiet", "--runs", tmp_path / "runs")
    (journal,) = tmp_path.rglob("journal.jsonl")
    return journal.parent


@pytest.mark.parametrize(("listing", "name"), [("environments", "hill"), ("agents", "walker")])
def test_outside_names_are_listed(listing: str, name: str) -> None:
    """What another package adds stands in the listing beside what ships."""
    assert f"  {name} " in printed(listing)


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("check sandbox nothing", "fence"),
        ("check executor nothing", "next_door"),
        ("export nothing runs -o nowhere", "json_lines"),
        ("diagnose runs --only nothing", "pace"),
        ("report runs -o nowhere --only nothing", "scores"),
    ],
)
def test_outside_names_are_known(command: str, name: str, tmp_path: Path) -> None:
    """Where a name is not known, the answer names what another package adds among those that would work."""
    done = call(*command.replace(" runs ", f" {tmp_path} ").split())

    assert done.returncode == 2, done.stderr
    assert name in done.stderr.partition("Known: ")[2]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("environment", "hill"),
        ("agent", "walker"),
        pytest.param("sandbox", "fence", marks=pytest.mark.nightly),
        pytest.param("executor", "next_door", marks=pytest.mark.nightly),
    ],
)
def test_outside_parts_pass_their_checks(kind: str, name: str) -> None:
    """What ships as the check of a part is the check of another package's too."""
    findings = json.loads(printed("check", kind, name, "--json"))["findings"]

    assert [one for one in findings if not one["ok"] and one.get("promised", True)] == []


def test_outside_parts_play_a_run(run: Path) -> None:
    """A run is played by outside parts alone, and its record names them."""
    document = json.loads((run / "run.json").read_bytes())
    logs = "".join(file.read_text(encoding="utf-8") for file in run.rglob("*.log"))

    assert document["stage"] == "finished"
    assert document["task"]["environment"]["name"] == "hill"
    assert document["agent"]["name"] == "walker"
    assert document["isolation"]["findings"]["fence"] == "of the package outside"
    assert "played next door" in logs


def test_outside_parts_read_a_run(run: Path, tmp_path: Path) -> None:
    """A run is exported, diagnosed and drawn by outside parts."""
    printed("export", "json_lines", run, "-o", tmp_path / "data")
    printed("report", run, "-o", tmp_path / "report", "--only", "scores", "--format", "svg")
    (row,) = map(json.loads, (tmp_path / "data" / "runs.jsonl").read_text(encoding="utf-8").splitlines())

    assert row["run"] == run.name
    assert json.loads(printed("diagnose", run, "--only", "pace", "--json"))["runs"][0]["pace"]["episodes"] == 4
    assert list((tmp_path / "report").rglob("scores.svg"))
