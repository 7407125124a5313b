"""A backend from outside that keeps policies in and no agent's program: one file, in a directory of its author's."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = """
from evopolicygym.sandbox.backends import process
from evopolicygym.sandbox.base import Guarantee


class Backend:
    guarantees = frozenset({Guarantee.MEMORY_LIMITED})
    required_features = frozenset()

    def findings(self):
        return {"vault": "locked"}

    def policy_sandbox(self, ground, control, environment):
        return process.Backend().policy_sandbox(ground, control, environment)
"""
NAME = "vault_module:Backend"
SMALL = ("--budget", "2", "--validation", "1", "--held-out", "1", "--workers", "1", "--json")
SUBMIT = ("--", "python3", "-c", "import subprocess; subprocess.run(['./judge', 'submit', '0-1'], check=True)")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with the backend's module."""
    (tmp_path / "vault_module.py").write_text(SOURCE, encoding="utf-8")
    return tmp_path


def typed(place: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """Type a command where the module can be imported."""
    paths = os.pathsep.join([str(place), *filter(None, sys.path)])
    environment = {**os.environ, "PYTHONPATH": paths, "XDG_STATE_HOME": str(place / "state")}
    return subprocess.run(
        [sys.executable, "-P", "-m", "evopolicygym", *words],
        cwd=place, env=environment, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


def test_policies_play_in_it(place: Path) -> None:
    """A backend without a program sandbox plays an agent that is no program, and the record has its name."""
    done = typed(place, "run", "cartpole", *SMALL, "--agent", "random", "--isolation", NAME)
    document = json.loads(next(place.glob("runs/*/*/*/*/run.json")).read_text(encoding="utf-8"))

    assert done.returncode == 0, done.stderr
    assert document["isolation"]["level"] == NAME
    assert document["isolation"]["findings"]["vault"] == "locked"


def test_it_runs_no_program(place: Path) -> None:
    """An agent that is a program is refused before there is a record, with the words that would waive it."""
    done = typed(place, "run", "cartpole", *SMALL, "--isolation", NAME, *SUBMIT)

    assert done.returncode == 2
    assert "--allow-missing program-sandbox" in done.stderr
    assert list(place.glob("runs/*/*/*/*")) == []


def test_a_program_that_was_waived(place: Path) -> None:
    """With the waiver the program runs, and the record's isolation says what it was without."""
    done = typed(place, "run", "cartpole", *SMALL, "--isolation", NAME, "--allow-missing", "program-sandbox", *SUBMIT)
    document = json.loads(next(place.glob("runs/*/*/*/*/run.json")).read_text(encoding="utf-8"))

    assert done.returncode == 0, done.stderr
    assert document["isolation"]["level"] == f"{NAME} without program-sandbox"
    assert document["submissions"][0]["status"] == "ok"


def test_it_is_attacked_for_what_it_guarantees(place: Path) -> None:
    """``check sandbox`` holds a backend to what it declares, and to nothing else."""
    program = (
        "import sys\n"
        "from evopolicygym.checks.sandbox import attacks\n"
        "from evopolicygym.sandbox.levels import guarantees\n"
        "held = [one.id for one in attacks() if one.guarantees and one.guarantees <= guarantees(sys.argv[1])]\n"
        "print(held)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, NAME],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(place), *filter(None, sys.path)])},
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.stdout.strip() == "['P40']", done.stderr
