"""A package of somebody else's adds a part of every kind: a file and an entry point each, and no edit of ours.

The package is copied from `tests/support/installed/`, laid out as pip installs one, into a temporary directory.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from places import ROOT

INSTALLED = ROOT / "tests" / "support" / "installed"


Command = Callable[..., "subprocess.CompletedProcess[str]"]
"""Runs the program with some words."""


@pytest.fixture(scope="module")
def call(tmp_path_factory: pytest.TempPathFactory) -> Command:
    """Return what runs the program where the package is installed, in a directory of its own."""
    place = tmp_path_factory.mktemp("site") / "packages"
    shutil.copytree(INSTALLED, place, ignore=shutil.ignore_patterns("__pycache__"))
    path = f"{place}{os.pathsep}{os.environ.get('PYTHONPATH', '')}".rstrip(os.pathsep)
    environment = {**os.environ, "PYTHONPATH": path, "COLUMNS": "200"}

    def call(*words: object) -> "subprocess.CompletedProcess[str]":
        line = [sys.executable, "-m", "evopolicygym", *map(str, words)]
        return subprocess.run(line, env=environment, capture_output=True, text=True, timeout=400, check=False)

    return call


@pytest.fixture(scope="module")
def printed(call: Command) -> Callable[..., str]:
    """Return what returns what a command printed; it must end well."""

    def printed(*words: object) -> str:
        done = call(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return printed


@pytest.fixture
def run(tmp_path: Path, printed: Callable[..., str]) -> Path:
    """Return a run of the outside environment, played by the outside agent with the outside executor and backend."""
    parts = ("--agent", "walker", "--isolation", "fence", "--executor", "next_door", "--track", "notebook")
    sizes = ("--budget", 4, "--validation", 1, "--held-out", 2)
    printed("run", "hill", *parts, *sizes, "--quiet", "--runs", tmp_path / "runs")
    (journal,) = tmp_path.rglob("journal.jsonl")
    return journal.parent


@pytest.mark.parametrize(("listing", "name"), [("environments", "hill"), ("agents", "walker")])
def test_outside_names_are_listed(listing: str, name: str, printed: Callable[..., str]) -> None:
    """What another package adds stands in the listing beside what ships."""
    assert f"  {name} " in printed(listing)


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("check sandbox nothing", "fence"),
        ("check executor nothing", "next_door"),
        ("export nothing runs -o nowhere", "json_lines"),
        ("diagnose runs --only nothing", "pace"),
        ("audit runs --only nothing", "policies"),
        ("report runs -o nowhere --only nothing", "scores"),
        ("run cartpole --track nothing", "notebook"),
    ],
)
def test_outside_names_are_known(command: str, name: str, tmp_path: Path, call: Command) -> None:
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
def test_outside_parts_pass_their_checks(kind: str, name: str, printed: Callable[..., str]) -> None:
    """What ships as the check of a part is the check of another package's too."""
    findings = json.loads(printed("check", kind, name, "--json"))["findings"]

    assert [one for one in findings if not one["ok"] and one.get("promised", True)] == []


def test_outside_parts_play_a_run(run: Path, tmp_path: Path) -> None:
    """A run is played by outside parts alone, and its record names them."""
    document = json.loads((run / "run.json").read_bytes())
    logs = "".join(file.read_text(encoding="utf-8") for file in run.rglob("*.log"))

    assert document["stage"] == "finished"
    assert document["task"]["environment"]["name"] == "hill"
    assert document["agent"]["name"] == "walker"
    assert document["isolation"]["findings"]["fence"] == "of the package outside"
    assert "played next door" in logs
    assert (tmp_path / "runs" / ".tracking" / f"{run.name}.txt").read_text(encoding="utf-8").endswith("scored\n")


def test_an_outside_pack_plays_a_run(tmp_path: Path, printed: Callable[..., str]) -> None:
    """A family that another package brings is listed and plays, and the package's version is on record."""
    sizes = ("--budget", 2, "--validation", 1, "--held-out", 2)
    printed("run", "Walk-v0-short", "--agent", "random", *sizes, "--quiet", "--runs", tmp_path)
    (journal,) = tmp_path.rglob("journal.jsonl")
    (pack,) = [one for one in json.loads(printed("packs", "--json")) if one["name"] == "walks"]
    environment = json.loads((journal.parent / "run.json").read_bytes())["task"]["environment"]

    assert (pack["tasks"], pack["installed"]) == (2, "yes")
    assert (environment["name"], environment["family"], environment["max_steps"]) == ("Walk-v0-short", "walks", 8)
    assert environment["objective"] == "Go to the end of the line."
    assert '"outside":"1.0"' in journal.read_text(encoding="utf-8")


@pytest.mark.nightly
def test_an_outside_pack_passes_its_check(call: Command) -> None:
    """What checks our packs checks another package's too."""
    done = call("packs", "check", "walks", "--json")
    if "bubblewrap" in done.stderr:
        pytest.skip(done.stderr)

    assert [(one["name"], one["ok"]) for one in json.loads(done.stdout)["tasks"]] == [
        ("Walk-v0-short", True),
        ("Walk-v0", True),
    ]


def test_outside_parts_read_a_run(run: Path, tmp_path: Path, printed: Callable[..., str]) -> None:
    """A run is exported, diagnosed, audited and drawn by outside parts."""
    printed("export", "json_lines", run, "-o", tmp_path / "data")
    printed("report", run, "-o", tmp_path / "report", "--only", "scores", "--format", "svg")
    (row,) = map(json.loads, (tmp_path / "data" / "runs.jsonl").read_text(encoding="utf-8").splitlines())

    assert row["run"] == run.name
    assert json.loads(printed("diagnose", run, "--only", "pace", "--json"))["runs"][0]["pace"]["episodes"] == 4
    assert json.loads(printed("audit", run, "--only", "policies", "--json"))["runs"][0]["counts"]["note"] >= 1
    assert list((tmp_path / "report").rglob("scores.svg"))
