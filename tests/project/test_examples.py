"""The examples run as they stand, and print what they show."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from places import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PRINTED = {
    "01_first_run.py": ("submission 0: ", "  selected", "over 8 cases", "verified: True"),
    "02_agent_over_http.py": ("12 episodes may be spent", "gain 4.0: mean return", "submission 2 was selected, score"),
    "03_agent_function.py": ("# Task: cartpole", "4 episodes left", "cartpole, by_feedback", "held-out returns: ("),
    "04_own_environment.py": ("passes: repeats in other processes", "swing: all 12 findings pass, score"),
    "05_own_diagnostic.py": (
        "| submission | gain |\n| ---: | ---: |\n| 1 | ",
        "| entry | kind | runs | largest gain |",
        "\n| tuner | ",
        "\n| random\\_search | ",
        "tuner: ",
    ),
    "06_results_in_pandas.py": ("standard_error", "held_out", "best so far", "normalised"),
    "07_optimiser.py": ("candidate 1: mean return", "15 candidates, the best scores"),
}
"""What each must print."""
IN_GATE = "05_own_diagnostic.py"
"""Plays two runs, and prints the table of one and the table of both."""


@pytest.mark.parametrize(
    "script",
    [pytest.param(script, marks=[] if script.name == IN_GATE else pytest.mark.nightly) for script in EXAMPLES],
    ids=lambda path: path.stem,
)
def test_an_example_runs_as_it_stands(script: Path, tmp_path: Path) -> None:
    """Each example leaves in good order, prints what it shows, and writes into the directory that it is given."""
    runs = tmp_path / "runs"
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    ended = subprocess.run(
        [sys.executable, str(script), str(runs)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 0, ended.stderr
    assert [text for text in PRINTED[script.name] if text not in ended.stdout] == []
    assert list(runs.rglob("run.json"))
    assert {path.name for path in tmp_path.iterdir()} == {"runs", "state"}


def test_examples_are_numbered_and_listed() -> None:
    """The examples are 01 to 07 without a gap, and each has a line in their README."""
    names = [script.name for script in EXAMPLES]
    lines = (ROOT / "examples" / "README.md").read_text(encoding="utf-8").splitlines()

    assert [name[:2] for name in names] == [f"{number:02d}" for number in range(1, len(names) + 1)]
    assert names == [line.partition("[")[2].partition("]")[0] for line in lines if line.startswith("| [")]
    assert PRINTED.keys() == set(names)
