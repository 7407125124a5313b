"""An option of a run is declared in one place: everything else follows from that."""

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from evopolicygym.core.options import COMMON_OPTIONS, RUN_OPTIONS
from patient import PATIENCE
from places import ROOT, SUPPORT

SMALL = ("--agent", "random", "--budget", "2", "--validation", "1", "--held-out", "2", "--split", "public")
TABLES = runpy.run_path(str(ROOT / "docs" / "tables.py"))
COMMANDS: dict[str, tuple[str, ...]] = {
    "flag": ("run", "cartpole", *SMALL, "--patience", "5", "--json"),
    "key": ("run", "--config", "run.toml", "--json"),
    "help of run": ("run", "--help"),
    "help of suite": ("suite", "--help"),
    "apart": ("leaderboard", "runs", "--json"),
    "by": ("leaderboard", "runs", "--group-by", "patience", "--json"),
}
"""What is typed, one after the other."""
PROGRAM = """
import contextlib, io, json, sys, patient
patient.add()
import evopolicygym
from evopolicygym.cli import output
from evopolicygym.cli.main import main
printed = {}
for name, words in json.load(sys.stdin).items():
    output.out.cache_clear()
    sys.argv = ["evopolicygym", *words]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            main()
        except SystemExit as leaving:
            assert not leaving.code, (words, leaving.code)
    printed[name] = out.getvalue()
small = {"budget": 2, "validation": 1, "held_out": 2, "split": "public"}
printed["argument"] = str(evopolicygym.run("cartpole", "random", patience=7, runs="others", **small).path)
json.dump(printed, sys.stdout)
"""
RUN = "budget = 2\nvalidation = 1\nheld_out = 2\nsplit = 'public'\n"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory in which the program with one more option plays some runs."""
    place = tmp_path_factory.mktemp("patient")
    (place / "run.toml").write_text(f"task = 'cartpole'\npatience = 6\n{RUN}[agent]\nname = 'random'\n")
    agents = "environments = ['cartpole']\n[[agents]]\nname = 'random'\n"
    (place / "some.toml").write_text(f"patience = 3\n{RUN}{agents}")
    return place


@pytest.fixture(scope="module")
def printed(place: Path) -> dict[str, str]:
    """Return what the program with one more option printed, by what was asked of it."""
    found: dict[str, str] = json.loads(patient(place, "-c", PROGRAM, stdin=json.dumps(COMMANDS)))
    return found


def patient(place: Path, *words: object, stdin: str = "") -> str:
    """Return what a Python program printed that may declare one more option."""
    done = subprocess.run(
        [sys.executable, *map(str, words)],
        input=stdin,
        cwd=place,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(SUPPORT), *sys.path]),
            "XDG_STATE_HOME": str(place / "state"),
            "COLUMNS": "100",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def choices(root: Path) -> object:
    """Return what a record says that was chosen."""
    return json.loads((root / "run.json").read_text())["task"].get("choices")


def test_a_new_option_has_a_flag(place: Path, printed: dict[str, str]) -> None:
    """It is in the help of `run` and of `suite`, and a run that is given it records it."""
    assert choices(place / json.loads(printed["flag"])["run"]) == {"patience": 5}
    assert all("--patience" in printed[f"help of {verb}"] for verb in ("run", "suite"))


def test_a_new_option_has_a_key(place: Path, printed: dict[str, str]) -> None:
    """A run's file holds it, and so does a suite's; at its default nothing is recorded."""
    (one,) = json.loads(patient(place, SUPPORT / "patient.py", "suite", "some.toml", "--json"))

    assert choices(place / json.loads(printed["key"])["run"]) == {"patience": 6}
    assert choices(place / one["run"]) == {}


def test_a_new_option_is_an_argument(place: Path, printed: dict[str, str]) -> None:
    """`evopolicygym.run` takes it by its name."""
    assert choices(place / printed["argument"]) == {"patience": 7}


def test_a_new_option_is_compared(printed: dict[str, str]) -> None:
    """Runs that differ in it stand in tables of their own, which say so, or are told apart by it."""
    apart, by = json.loads(printed["apart"]), json.loads(printed["by"])

    assert sorted(one["title"] for one in apart["tables"]) == ["patience 5", "patience 6"]
    assert {one["entry"] for one in by["entries"]} >= {"random, patience 5", "random, patience 6"}


def test_a_new_option_has_a_row_in_the_docs() -> None:
    """The docs' table has a row for it, and the page holds the table of today's options."""
    page = (ROOT / "docs" / "reference" / "command_line.md").read_text(encoding="utf-8")

    assert "| `--patience` | `patience` | 3 | how patient the judge is |" in TABLES["options_table"]([PATIENCE])
    assert TABLES["with_tables"](page) == page


def test_every_option_of_a_run_is_declared_whole() -> None:
    """Each has a help, a place in a file of its own, and a default that its table takes."""
    keys = [(*one.tables, one.key) for one in RUN_OPTIONS]

    assert all(one.help for one in RUN_OPTIONS)
    assert len(set(keys)) == len(keys)
    assert {one.name for one in COMMON_OPTIONS} < {one.name for one in RUN_OPTIONS}
