"""Tables in every format, through the command: escaped, whole, and readable without a simulator."""

import csv
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from evopolicygym.analysis.ranking.bootstrap import Interval
from evopolicygym.analysis.tables.table import Column, Number, Table, format_tables
from evopolicygym.core.errors import UnknownName
from made_up import IN_ANOTHER_PROCESS
from records_of_runs import changed, real_document, write, write_many
from shell import ESCAPE, Shell

pytestmark = pytest.mark.made_up

HOSTILE = "\x1b[2J<script>alert(1)</script>[red]x[/red]|_$&%\\input{x}"
TABLE = Table(
    "A & B",
    (Column("entry", "entry", is_text=True), Column("score", "score")),
    ((HOSTILE, Number(0.5, 2, 0.1, Interval(0.25, 0.75))), ("=1+1", None)),
    ("100% _sure_",),
)
BLOCKED = ("gymnasium", "mujoco", "torch", "pandas", "minigrid", "highway_env", "scipy")
BLOCKING = f"""
import sys

class Refusing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {BLOCKED!r}:
            raise ImportError(f"{{name}} is not to be had")

sys.meta_path.insert(0, Refusing())
{IN_ANOTHER_PROCESS}
import json
from evopolicygym.cli.main import main
for words in json.loads(sys.argv[1]):
    sys.argv = ["evopolicygym", *words]
    try:
        main()
    except SystemExit as leaving:
        assert not leaving.code
"""
"""The program, which runs one command after another where no simulator can be imported."""


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Return a directory with runs of two agents, one of them with a hostile name."""
    write_many(tmp_path / "runs", tmp_path / "real", ["good"], 2, ["acrobot", "reacher"], cases=4)
    document = real_document(tmp_path / "again")
    for task in ("acrobot", "reacher"):
        write(tmp_path / "runs", changed(document, task, HOSTILE, [-200.0, -201.0, -202.0, -203.0]))
    return tmp_path / "runs"


def test_csv() -> None:
    """CSV has numbers in full, in columns of their own, and no text that a spreadsheet would compute."""
    rows = list(csv.reader(io.StringIO(format_tables([TABLE], "csv"))))

    assert rows[0] == ["entry", "score", "score_standard_error", "score_low", "score_high"]
    assert rows[1][1:] == ["0.5", "0.1", "0.25", "0.75"]
    assert rows[1][0].startswith("\\x1b[2J<script>")
    assert rows[2] == ["'=1+1", "", "", "", ""]


def test_markdown() -> None:
    """Markdown holds neither HTML nor a bar that isn't a column's."""
    text = format_tables([TABLE], "markdown")

    assert "<" not in text
    assert "\x1b" not in text
    assert "\\[red\\]x" in text
    assert all(line.replace("\\|", "").count("|") == 3 for line in text.splitlines() if line.startswith("|"))


def test_latex() -> None:
    """LaTeX is told no command by a name."""
    text = format_tables([TABLE], "latex")

    assert r"\input" not in text
    assert r"\textbar{}\_\$\&\%\textbackslash{}input\{x\}" in text
    assert r"0.50 $\pm$ 0.10 {[}0.25, 0.75{]} \\" in text


def test_a_format_that_there_is_not() -> None:
    """Another format is refused by name."""
    with pytest.raises(UnknownName, match="'word'"):
        format_tables([TABLE], "word")


def test_the_papers_figures_through_the_command(shell: Shell) -> None:
    """leaderboard --tables paper --json gives the paper's own aggregates."""
    entries = shell.json("leaderboard", "--tables", "paper")["entries"]

    assert [one["rank_score"]["value"] for one in entries] == [0.890625, 0.75, 0.53125, 0.359375, 0.109375]
    assert [(one["wins"], one["top_2"]) for one in entries] == [(9, 16), (5, 12), (1, 3), (1, 1), (0, 0)]
    assert [one["value"] for one in entries[0]["families"].values()] == [0.9375, 0.875, 0.8125, 0.9375]
    assert entries[1]["families"]["minigrid"]["value"] == 0.9375
    kinds = [[round(one["kinds"][kind]["value"], 2) for one in entries[:4]] for kind in ("synthesis", "tuning")]
    assert kinds[0] == pytest.approx([0.98, 1.00, 0.19, 0.03], abs=0.011)
    assert (kinds[1][0], kinds[1][3]) == pytest.approx((0.99, 0.67), abs=0.011)


@pytest.mark.parametrize("form", ["table", "csv", "json", "markdown", "latex"])
def test_hostile_names_are_text(runs: Path, shell: Shell, form: str) -> None:
    """A name from a record is printed as it is spelled, in every format, with every task's table."""
    found = shell.printed("leaderboard", runs, "--format", form, "--per-task")

    assert "good" in found
    assert ESCAPE not in found
    if form in {"table", "csv"}:
        assert "\\x1b[2J<script>alert(1)</script>[red]x[/red]|_$&%\\input{x}" in found


def test_compare_through_the_command(runs: Path, shell: Shell) -> None:
    """Two labels, or a label and a shipped entry, are compared task by task."""
    bad = next(one for one in labels(shell, runs) if one.startswith("\\x1b"))
    found: dict[str, Any] = shell.json("compare", "good", bad, runs)
    beside = shell.printed("compare", "good", "GPT-5.5 (Codex)", runs, "--tables", "paper")

    assert (found["first"], len(found["tasks"]), found["tasks"][0]["paired"]) == ("good", 2, True)
    assert found["probability_of_improvement"]["value"] == 0.5
    assert "acrobot" in beside


def test_compare_of_two_directories(tmp_path: Path, shell: Shell) -> None:
    """Two runs of one agent are compared by their directories."""
    document = real_document(tmp_path / "real")
    one, other = (
        write(tmp_path / "runs", changed(document, "acrobot", "same", [mean, mean - 1], seed))
        for seed, mean in enumerate((-80.0, -90.0))
    )
    found = shell.json("compare", one, other)

    assert found["tasks"][0]["difference"] == 10.0


def test_compare_of_a_directory_with_a_label(tmp_path: Path, shell: Shell) -> None:
    """A directory is told from other runs that bear its label, and from shipped ones; the same runs are refused."""
    document = real_document(tmp_path / "real")
    one, other = (
        write(tmp_path / place, changed(document, "acrobot", "tuner", [mean, mean - 1], seed))
        for seed, (place, mean) in enumerate((("one", -80.0), ("other", -90.0)))
    )
    found = shell.json("compare", "tuner", other, tmp_path / "one")
    beside = shell.json("compare", one, "tuner", "--tables", "baselines", "--allow-incomparable")
    refused = shell("compare", one, one / "..", tmp_path / "one")

    assert found["tasks"][0]["difference"] == 10.0
    assert (found["first"], found["second"]) == ("tuner", f"tuner ({other})")
    assert beside["first"] == f"tuner ({one})"
    assert (refused.code, "with itself" in refused.err) == (2, True)


def test_compare_of_shipped_runs(tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries of shipped tables of runs are known by their labels where there are no runs."""
    monkeypatch.chdir(tmp_path)
    found = shell.json("compare", "reference", "tuner", "--tables", "references,baselines")

    assert len(found["tasks"]) == 11


def labels(shell: Shell, runs: Path) -> list[str]:
    found = shell.json("leaderboard", runs)
    return [one["entry"] for one in found["entries"]]


def test_results_are_read_without_a_simulator(runs: Path, tmp_path: Path) -> None:
    """leaderboard, compare and show work where no simulator, torch or pandas can be imported."""
    commands = [
        ["leaderboard", str(runs), "--tables", "paper", "--per-task"],
        ["compare", "good", "GPT-5.5 (Codex)", str(runs), "--tables", "paper"],
        ["show", str(tmp_path / "real")],
    ]
    line = [sys.executable, "-c", BLOCKING, json.dumps(commands)]
    left = subprocess.run(line, capture_output=True, text=True, check=False)

    assert (left.returncode, left.stderr) == (0, "")
    assert [word in left.stdout for word in ("acrobot", "GPT-5.5", "toy")] == [True] * 3
