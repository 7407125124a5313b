"""Harnesses by models, in a grid."""

from pathlib import Path

import pytest

import evopolicygym
from evopolicygym.analysis.tables.table import cell_text
from records_of_runs import changed, real_document, write

pytestmark = pytest.mark.made_up

PLAYED = {("codex", "m", "low"): 0.2, ("codex", "n", ""): 0.5, ("neutral", "m", "low"): 0.9, ("tuner", "", ""): 1.0}


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Lay two runs of each pair of harness and model that was played; return their directory."""
    document = real_document(tmp_path / "real")
    for (harness, model, effort), height in PLAYED.items():
        for seed in range(2):
            run = changed(document, "acrobot", harness, [-400 + 100 * height + case for case in range(4)], seed)
            run["agent"] |= {"model": model, "effort": effort, "label": f"my {harness} {model}"}
            run["run_id"] += f"-{model}"
            write(tmp_path / "runs", run)
    return tmp_path / "runs"


def test_the_grid(runs: Path) -> None:
    """Each harness is a row, each model with its effort a column; a pair that was not played is an empty cell."""
    table = evopolicygym.leaderboard(runs).arranged(show="harnesses")[0]
    rows = {
        row[0]: dict(zip([one.heading for one in table.columns[1:]], map(cell_text, row[1:]), strict=True))
        for row in table.rows
    }

    assert {name: {model for model, cell in row.items() if cell != "-"} for name, row in rows.items()} == {
        "codex": {"m@low", "n"},
        "neutral": {"m@low"},
        "tuner": {"no model"},
    }
    assert rows["tuner"]["no model"].startswith("1.000 [")


def test_columns_of_their_own(runs: Path) -> None:
    """A label replaces neither harness nor model nor effort, in tables and for programs."""
    board = evopolicygym.leaderboard(runs)
    row = next(row for row in board.records if row["entry"] == "my codex m m low")
    entry = next(one for one in board.document["entries"] if one["entry"] == row["entry"])

    assert (row["agent_kind"], row["model"], row["effort"]) == ("codex", "m", "low")
    assert (entry["agent_kind"], entry["model"], entry["effort"]) == ("codex", "m", "low")
