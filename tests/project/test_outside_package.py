"""A package of somebody else's adds a part of every kind: a file and an entry point each, and no edit of ours.

The package is copied from `tests/support/installed/`, laid out as pip installs one, into a temporary directory.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from places import ROOT

INSTALLED = ROOT / "tests" / "support" / "installed"


SEVERAL = """
import contextlib, io, json, sys
from evopolicygym.cli.main import main

outcomes = []
for words in json.loads(sys.argv[1]):
    sys.argv, code, out, err = ["evopolicygym", *words], 0, io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as leaving:
            code = leaving.code or 0
    outcomes.append((code, out.getvalue(), err.getvalue()))
print(json.dumps(outcomes))
"""
"""The program, which runs several commands in one process; it prints their codes and what they printed."""
LISTED = {"environments": "hill", "agents": "walker"}
"""What stands in a listing, by its command."""
KNOWN = {
    "check sandbox nothing": "fence",
    "check executor nothing": "next_door",
    "export nothing RUNS -o nowhere": "json_lines",
    "diagnose RUNS --only nothing": "pace",
    "audit RUNS --only nothing": "policies",
    "report RUNS -o nowhere --only nothing": "scores",
    "run cartpole --track nothing": "notebook",
}
"""What is named among what would work, by a command with a name that isn't known."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a command ended."""

    code: int
    out: str
    err: str


class Program:
    """The program where the package is installed, with a state directory of its own."""

    def __init__(self, place: Path) -> None:
        shutil.copytree(INSTALLED, place / "packages", ignore=shutil.ignore_patterns("__pycache__"))
        path = os.pathsep.join(filter(None, (str(place / "packages"), os.environ.get("PYTHONPATH"))))
        homes = {"XDG_STATE_HOME": str(place / "state"), "XDG_DATA_HOME": str(place / "data")}
        self._environment = {**os.environ, **homes, "PYTHONPATH": path, "COLUMNS": "200"}

    def run(self, *words: object) -> Outcome:
        """Run a command."""
        line = [sys.executable, "-m", "evopolicygym", *map(str, words)]
        done = subprocess.run(line, env=self._environment, capture_output=True, text=True, check=False)
        return Outcome(done.returncode, done.stdout, done.stderr)

    def run_all(self, *commands: Iterable[object]) -> list[Outcome]:
        """Run commands, one after another in one process."""
        line = [sys.executable, "-P", "-c", SEVERAL, json.dumps([list(map(str, words)) for words in commands])]
        done = subprocess.run(line, env=self._environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return [Outcome(*outcome) for outcome in json.loads(done.stdout)]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """Return the program where the package is installed."""
    return Program(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, program: Program) -> Path:
    """Return a run of the outside environment, played by the outside agent with the outside executor and backend."""
    runs = tmp_path_factory.mktemp("outside") / "runs"
    parts = ("--agent", "walker", "--isolation", "fence", "--executor", "next_door", "--track", "notebook")
    sizes = ("--budget", 4, "--validation", 1, "--held-out", 2)
    played = program.run("run", "hill", *parts, *sizes, "--quiet", "--runs", runs)
    assert played.code == 0, played.err
    (journal,) = runs.rglob("journal.jsonl")
    return journal.parent


def test_outside_names_are_known(program: Program, tmp_path: Path) -> None:
    """What another package adds is listed, and named where a command has a name that isn't known."""
    commands = [command.replace("RUNS", str(tmp_path)).split() for command in (*LISTED, *KNOWN)]
    outcomes = program.run_all(*commands)
    listings, answers = outcomes[: len(LISTED)], outcomes[len(LISTED) :]

    assert [(done.code, f"  {name} " in done.out) for done, name in zip(listings, LISTED.values(), strict=True)] == [
        (0, True)
    ] * len(LISTED)
    assert [(done.code, name in done.err) for done, name in zip(answers, KNOWN.values(), strict=True)] == [
        (2, True)
    ] * len(KNOWN), answers


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("kind", "name"),
    [("environment", "hill"), ("agent", "walker"), ("sandbox", "fence"), ("executor", "next_door")],
)
def test_outside_parts_pass_their_checks(kind: str, name: str, program: Program) -> None:
    """What ships as the check of a part is the check of another package's too."""
    findings = json.loads(program.run("check", kind, name, "--json").out)["findings"]

    assert [one for one in findings if not one["ok"] and one.get("promised", True)] == []


def test_outside_parts_play_a_run(run: Path) -> None:
    """A run is played by outside parts alone, and its record names them."""
    document = json.loads((run / "run.json").read_bytes())
    logs = "".join(file.read_text(encoding="utf-8") for file in run.rglob("*.log"))
    (notes,) = run.parents[3].glob(f".tracking/{run.name}.txt")

    assert document["stage"] == "finished"
    assert document["task"]["environment"]["name"] == "hill"
    assert document["agent"]["name"] == "walker"
    assert document["isolation"]["findings"]["fence"] == "of the package outside"
    assert "played next door" in logs
    assert notes.read_text(encoding="utf-8").endswith("scored\n")


@pytest.mark.nightly
def test_an_outside_pack_plays_a_run(tmp_path: Path, program: Program) -> None:
    """A family that another package brings is listed and plays, and the package's version is on record."""
    sizes = ("--budget", 2, "--validation", 1, "--held-out", 2)
    played, listed = program.run_all(
        ["run", "Walk-v0-short", "--agent", "random", *sizes, "--quiet", "--runs", tmp_path], ["packs", "--json"]
    )
    assert played.code == 0, played.err
    (journal,) = tmp_path.rglob("journal.jsonl")
    (pack,) = [pack for pack in json.loads(listed.out) if pack["name"] == "walks"]
    environment = json.loads((journal.parent / "run.json").read_bytes())["task"]["environment"]

    assert (pack["tasks"], pack["installed"]) == (2, "yes")
    assert (environment["name"], environment["family"], environment["max_steps"]) == ("Walk-v0-short", "walks", 8)
    assert environment["objective"]
    assert '"outside":"1.0"' in journal.read_text(encoding="utf-8")


@pytest.mark.nightly
def test_an_outside_pack_passes_its_check(program: Program) -> None:
    """What checks our packs checks another package's too."""
    done = program.run("packs", "check", "walks", "--json")
    if "bubblewrap" in done.err:
        pytest.skip(done.err)

    assert [(task["name"], task["ok"]) for task in json.loads(done.out)["tasks"]] == [
        ("Walk-v0-short", True),
        ("Walk-v0", True),
    ]


def test_outside_parts_read_a_run(run: Path, tmp_path: Path, program: Program) -> None:
    """A run is exported, diagnosed, audited and drawn by outside parts; an outside pack is listed."""
    outcomes = program.run_all(
        ("export", "json_lines", run, "-o", tmp_path / "data"),
        ("report", run, "-o", tmp_path / "report", "--only", "scores", "--format", "svg", "--no-pages"),
        ("diagnose", run, "--only", "pace", "--json"),
        ("audit", run, "--only", "policies", "--json"),
        ("packs", "--json"),
    )
    assert [done.code for done in outcomes] == [0] * 5, outcomes
    diagnosed, audited, packs = (json.loads(done.out) for done in outcomes[2:])
    (row,) = map(json.loads, (tmp_path / "data" / "runs.jsonl").read_text(encoding="utf-8").splitlines())

    assert row["run_id"] == run.name
    assert diagnosed["runs"][0]["pace"]["episodes"] == 4
    assert audited["runs"][0]["counts"]["note"] >= 1
    assert list((tmp_path / "report").rglob("scores.svg"))
    assert "walks" in {pack["name"] for pack in packs}
