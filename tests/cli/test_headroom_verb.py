"""``evopolicygym headroom``, as it is typed."""

import csv
import json
from io import StringIO
from pathlib import Path

import pytest

from records_of_runs import changed, real_document, write
from shell import Shell

pytestmark = pytest.mark.made_up

SHIPPED = "paper,references,baselines,published"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Lay three runs each of three agents, two of them at the best score; return their directory."""
    document = real_document(tmp_path / "real")
    for agent, mean in (("mine", -70), ("theirs", -70), ("tuner", -300)):
        for seed in range(3):
            returns = [mean + seed / 10 + case % 3 / 10 for case in range(6)]
            write(tmp_path / "runs", changed(document, "acrobot", agent, returns, seed))
    return tmp_path / "runs"


def test_it_works_in_an_empty_directory(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What ships is enough for a table of Core16, with what was published elsewhere in a table apart."""
    monkeypatch.chdir(tmp_path)
    came = shell("headroom", "--tables", SHIPPED)

    assert came.code == 0
    assert all(
        name in came.out for name in ("acrobot", "reference (ours)", "unknown (too few entries)", "never ranked")
    )


def test_every_form(shell: Shell, runs: Path) -> None:
    """The same verdict is a table for people, CSV for a spreadsheet, and JSON for a program."""
    table = shell("headroom", runs)
    (row,) = csv.DictReader(StringIO(shell("headroom", runs, "--format", "csv").out))
    (task,) = json.loads(shell("headroom", runs, "--json").out)["tasks"]

    assert "nearly spent" in table.out
    assert row["verdict"] == task["verdict"] == "nearly spent"
    assert float(row["at_best"]) == task["at_best"] == pytest.approx(2 / 3)
    assert task["spread"]["noise_covers"] == "runs and cases"


def test_one_family(shell: Shell) -> None:
    """The tasks of one family are shown alone, with the figures of these alone."""
    found = json.loads(shell("headroom", "--tables", SHIPPED, "--family", "minigrid", "--json").out)

    assert {task["family"] for task in found["tasks"]} == {"minigrid"}
    assert [task["name"] for one in found["published_elsewhere"] for task in one["tasks"]] == ["keycorridor-s4r3"]


@pytest.mark.parametrize(
    ("words", "said"),
    [(["--tables", "papers"], "'paper'"), (["--format", "html"], "format"), (["--family", "x"], "family")],
)
def test_what_is_not_there(shell: Shell, runs: Path, words: list[str], said: str) -> None:
    """An invalid request is a sentence and exit code 2."""
    refused = shell("headroom", runs, *words)

    assert refused.code == 2
    assert said in refused.err


def test_figures_alone_are_nothing_to_look_at(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures of other protocols are no tasks: without runs or a table, the message names what is missing."""
    monkeypatch.chdir(tmp_path)
    refused = shell("headroom", "--tables", "published")

    assert refused.code == 2
    assert "runs" in refused.err
