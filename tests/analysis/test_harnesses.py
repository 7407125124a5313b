"""Harnesses by models, in a grid."""

from pathlib import Path

import pytest

import evopolicygym
from evopolicygym.analysis.tables.table import cell_text
from evopolicygym.core.errors import UnknownName, UsageError
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
    table = evopolicygym.leaderboard(runs, show="harnesses").arranged()[0]
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


@pytest.mark.parametrize(
    ("first", "second"),
    [("my codex m m low", "my neutral m m low"), ("my codex m", "my neutral m"), ("my tuner ", "Uniform random")],
)
def test_an_entry_is_known_by_each_of_its_names(runs: Path, first: str, second: str) -> None:
    """``compare`` takes what tables call an entry, and what a suite calls it."""
    pair = evopolicygym.compare(first, second, runs).pair

    assert (pair.first.label.startswith(first.strip()), pair.second.label.startswith(second)) == (True, True)


def test_a_name_of_several_entries_is_refused(runs: Path) -> None:
    """So are two names of one entry, and a misspelt name, which is answered with the nearest."""
    with pytest.raises(UsageError, match="codex m m low, seed 0"):
        evopolicygym.compare("my codex m", "my neutral m", runs, group_by=["seed"])
    with pytest.raises(UsageError, match="one entry"):
        evopolicygym.compare("my codex m", "my codex m m low", runs)
    with pytest.raises(UnknownName, match="Did you mean 'my codex m m low'"):
        evopolicygym.compare("my codex m m lw", "my neutral m", runs)


def test_columns_of_their_own(runs: Path) -> None:
    """A label replaces neither harness nor model nor effort, in tables and for programs."""
    board = evopolicygym.leaderboard(runs)
    row = next(row for row in board.records if row["entry"] == "my codex m m low")
    entry = next(one for one in board.document["entries"] if one["entry"] == row["entry"])

    assert (row["agent_kind"], row["model"], row["effort"]) == ("codex", "m", "low")
    assert (entry["agent_kind"], entry["model"], entry["effort"]) == ("codex", "m", "low")
