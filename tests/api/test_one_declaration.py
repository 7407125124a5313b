"""An option of a run is declared in one place: everything else follows from that."""

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from evopolicygym.core.run_options import COMMON_OPTIONS, RUN_OPTIONS
from patient import PATIENCE
from places import ROOT, SUPPORT

SMALL = ("--agent", "random", "--budget", "2", "--validation", "1", "--held-out", "2", "--split", "public")
TABLES = runpy.run_path(str(ROOT / "docs" / "tables.py"))
FROM_PYTHON = """
import sys, patient, evopolicygym
patient.add()
small = {"budget": 2, "validation": 1, "held_out": 2, "split": "public"}
run = evopolicygym.run("cartpole", "random", patience=7, runs=sys.argv[1], **small)
print(run.path)
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory in which the program with one more option has played some runs."""
    return tmp_path_factory.mktemp("patient")


def patient(place: Path, *words: object) -> str:
    """Return what the program with one more option printed."""
    done = subprocess.run(
        [sys.executable, *map(str, words)],
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


def test_a_new_option_has_a_flag(place: Path) -> None:
    """It is in the help of `run` and of `suite`, and a run that is given it records it."""
    program = SUPPORT / "patient.py"
    outcome = json.loads(patient(place, program, "run", "cartpole", *SMALL, "--patience", 5, "--json"))

    assert choices(place / outcome["run"]) == {"patience": 5}
    assert all("How patient the judge is." in patient(place, program, verb, "--help") for verb in ("run", "suite"))


def test_a_new_option_has_a_key(place: Path) -> None:
    """A run's file holds it, and so does a suite's; at its default nothing is recorded."""
    run = "budget = 2\nvalidation = 1\nheld_out = 2\nsplit = 'public'\n"
    (place / "run.toml").write_text(f"task = 'cartpole'\npatience = 6\n{run}[agent]\nname = 'random'\n")
    agents = "environments = ['cartpole']\n[[agents]]\nname = 'random'\n"
    (place / "some.toml").write_text(f"patience = 3\n{run}{agents}")
    program = SUPPORT / "patient.py"
    alone = json.loads(patient(place, program, "run", "--config", "run.toml", "--json"))
    (one,) = json.loads(patient(place, program, "suite", "some.toml", "--json"))

    assert choices(place / alone["run"]) == {"patience": 6}
    assert choices(place / one["run"]) is None


def test_a_new_option_is_an_argument(place: Path) -> None:
    """`evopolicygym.run` takes it by its name."""
    assert choices(Path(patient(place, "-c", FROM_PYTHON, place / "runs").strip())) == {"patience": 7}


def test_a_new_option_is_compared(place: Path) -> None:
    """Runs that differ in it stand in tables of their own, which say so, or are told apart by it."""
    for value in (1, 2):
        patient(place, SUPPORT / "patient.py", "run", "cartpole", *SMALL, "--runs", "pair", "--patience", value, "-q")
    apart = json.loads(patient(place, SUPPORT / "patient.py", "leaderboard", "pair", "--json"))
    by = json.loads(patient(place, SUPPORT / "patient.py", "leaderboard", "pair", "--by", "patience", "--json"))

    assert [one["title"] for one in apart["tables"]] == ["patience 1", "patience 2"]
    assert {one["entry"] for one in by["entries"]} >= {"random, patience 1", "random, patience 2"}


def test_a_new_option_has_a_row_in_the_docs() -> None:
    """The docs' table has a row for it, and the page holds the table of today's options."""
    page = (ROOT / "docs" / "reference" / "command_line.md").read_text(encoding="utf-8")

    assert "| `--patience` | `patience` | 3 | how patient the judge is |" in TABLES["options_table"]([PATIENCE])
    assert TABLES["with_tables"](page) == page


def test_every_option_of_a_run_is_declared_whole() -> None:
    """Each has a help, a place in a file of its own, and a default that its table takes."""
    keys = [(*one.option.tables, one.key) for one in RUN_OPTIONS]

    assert all(one.option.help for one in RUN_OPTIONS)
    assert len(set(keys)) == len(keys)
    assert {one.name for one in COMMON_OPTIONS} < {one.name for one in RUN_OPTIONS}
