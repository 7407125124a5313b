"""``evopolicygym effects``, as it is typed."""

import csv
import json
from io import StringIO
from pathlib import Path

import pytest

from records_of_runs import changed, real_document, write
from shell import Shell

pytestmark = pytest.mark.made_up


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Lay pairs of runs that differ in their budget; return their directory."""
    document = real_document(tmp_path / "real")
    for seed in range(2):
        for budget in (8, 32):
            run = changed(document, "acrobot", "tuner", [-400 + budget + seed + case % 3 for case in range(4)], seed)
            run["run_id"] += f"-{budget}"
            run["task"]["budget"]["episodes"] = run["budget"]["episodes"] = budget
            write(tmp_path / "runs", run)
    return tmp_path / "runs"


def test_every_form(shell: Shell, runs: Path) -> None:
    """The same differences are a table for people, CSV for a spreadsheet, and JSON for a program."""
    table = shell("effects", runs)
    (row,) = csv.DictReader(StringIO(shell("effects", runs, "--format", "csv").out))
    (one,) = json.loads(shell("effects", runs, "--json").out)["differences"]

    assert "Means of levels" in table.out
    assert "Paired differences" in table.out
    assert float(row["difference"]) == one["difference"] > 0
    assert (one["knob"], one["over"], one["level"], one["pairs"]) == ("budget", 8, 32, 2)


def test_differences_in_returns(shell: Shell, runs: Path) -> None:
    """``--in-returns`` has means and differences in returns."""
    found = shell.json("effects", runs, "--in-returns")

    assert (found["in_returns"], [mean["mean"] for mean in found["means"]]) == (True, [-390.75, -366.75])
    assert [found["differences"][0][key] for key in ("difference", "difference_of_returns")] == [24.0, 24.0]


def test_failing_never_pays(shell: Shell, runs: Path) -> None:
    """A run without a score counts as its agent's worst run where that is worse than random play."""
    document = json.loads(next(runs.glob("*/run.json")).read_text())
    for seed, budget, mean in ((2, 32, None), (2, 8, -600.0)):
        run = changed(document, "acrobot", "tuner", [mean or 0.0] * 4, seed)
        run["run_id"] += f"-{budget}"
        run["task"]["budget"]["episodes"] = run["budget"]["episodes"] = budget
        if mean is None:
            run["outcome"] |= {"status": "no_ok_submit", "held_out_returns": [], "score": None}
        write(runs, run)
    (found,) = shell.json("effects", runs, "--in-returns")["differences"]

    assert (found["pairs"], found["difference"]) == (3, 16.0)


def test_runs_without_a_partner_are_counted(shell: Shell, runs: Path) -> None:
    """A run whose seed was played at one level only is in no pair, and is counted."""
    document = json.loads(next(runs.glob("*/run.json")).read_text())
    write(runs, changed(document, "acrobot", "tuner", [-399.0, -398.0, -397.0, -399.0], 9))
    found = shell.json("effects", runs)

    assert found["runs"] == {"budget": {"in_pairs": 4, "of": 5}}
    assert any("4 of 5" in note for note in found["notes"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--knobs", "bugdet"], "'budget'"),
        (["--format", "html"], "format"),
        (["--knobs", "films"], "films"),
    ],
)
def test_what_can_not_be_compared(shell: Shell, runs: Path, words: list[str], said: str) -> None:
    """An invalid request is a sentence and exit code 2."""
    refused = shell("effects", runs, *words)

    assert refused.code == 2
    assert said in refused.err
