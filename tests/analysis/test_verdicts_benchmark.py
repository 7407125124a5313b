"""`benchmarks/verdicts.py`: runs in memory say what their directories say, and those are records that hold."""

import subprocess
import sys
from pathlib import Path

import pytest

import evopolicygym
from evopolicygym.analysis.results import load_results
from fakes import TOY
from made_records import MadeRun, write_made
from places import ROOT


@pytest.fixture
def run() -> MadeRun:
    """A run of two submissions, the first of which is the better one."""
    return MadeRun(TOY, "agent-0", 3, (1.0, -2.5, 0.125), ((4.0, 5.0), (0.0, 1.0)), budget=4)


def test_a_made_run_is_a_record_that_holds(run: MadeRun, tmp_path: Path) -> None:
    """A made run's directory passes every check of a record, and has the returns that were asked for."""
    found = load_results([write_made(tmp_path / "run", run)])
    (result,) = found.runs

    assert found.problems == ()
    assert (result.held_out_returns, result.validation_mean, result.seed) == (run.held_out, 4.5, 3)
    assert [point.spent for point in result.curve] == [2, 4]
    assert all(finding.ok or finding.settled_by_replay for finding in evopolicygym.verify(tmp_path / "run").findings)


def test_figures_in_memory_are_those_of_directories() -> None:
    """The program compares a table in memory with the same one on disk, and prints that no figure differs."""
    asked = ["--agents", "2", "--tasks", "1", "--repeats", "2", "--shapes", "0/1", "--tables", "1"]
    done = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "verdicts.py", *asked], capture_output=True, text=True, check=True
    )

    assert "\n| 2 | 1 | 2 | 0/1 | 0 ± 100 |" in done.stdout
    assert "1 of 1 cells" in done.stdout
