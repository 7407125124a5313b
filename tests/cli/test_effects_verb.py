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
