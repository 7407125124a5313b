"""``evopolicygym power``, as it is typed."""

import csv
from collections.abc import Iterable, Sequence
from io import StringIO
from pathlib import Path

import pytest

import evopolicygym
from evopolicygym.core.check_result import Item
from records_of_runs import changed, real_document, write
from shell import Shell

pytestmark = pytest.mark.made_up


def test_shipped_runs_are_enough(shell: Shell) -> None:
    """Without runs of one's own, shipped ones say what tasks take: in a table, as CSV and as JSON."""
    found = shell.json("power", "--tasks", "half_cheetah,ant", "--run-cost", "2")
    rows = list(csv.DictReader(StringIO(shell.printed("power", "--tasks", "half_cheetah,ant", "--format", "csv"))))

    assert [row["task"] for row in found["tasks"]] == ["ant", "half_cheetah", "all 2 tasks together"]
    assert [row["repeats"] for row in rows] == [str(row["repeats"]) for row in found["tasks"]]
    assert [row["cost"] / row["repeats"] for row in found["tasks"]] == [4.0, 4.0, 8.0]
    assert all(row["power"] >= 0.8 for row in found["tasks"])


def test_own_runs_say_what_a_run_takes(shell: Shell, tmp_path: Path) -> None:
    """One's own repeats are pooled with shipped ones of the game, and their times are taken."""
    document = real_document(tmp_path / "real")
    for seed in range(3):
        write(tmp_path / "runs", changed(document, "acrobot", "mine", [-70.0 + seed, -72.0 + seed, -71.0], seed))
    asked = ("power", tmp_path / "runs", "--difference", "20", "--in-returns", "--repeats", "4")
    both, alone = (shell.json(*asked, *more)["tasks"] for more in (("--tasks", "acrobot"), ("--tables", "")))

    assert [row["task"] for row in alone] == ["acrobot"]
    assert alone[0]["variances"]["of_a_run"]["runs"] == both[0]["variances"]["of_a_run"]["runs"] == 3
    assert alone[0]["power"] > 0.99
    assert both[0]["power"] < 0.2


def test_equal_repeats_forecast_nothing(shell: Shell) -> None:
    """On a task where no shipped agent's runs differ, nothing is known of agents whose runs do."""
    found = shell.json("power", "--tasks", "pusher,ant")["tasks"]

    assert [(row["task"], row["is_known"], row["power"] is None) for row in found] == [
        ("ant", True, False), ("pusher", False, True),
    ]  # fmt: skip
    assert found[1]["repeats"] is found[1]["standard_deviation_between_runs"] is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--difference", "0"], "Invalid difference"),
        (["--repeats", "1"], "Invalid repeats"),
        (["--power", "1"], "Invalid power"),
        (["--held-out", "1"], "Invalid held-out cases"),
        (["--tasks", "acrobat"], "'acrobot'"),
        (["--tables", "paper"], "baselines"),
    ],
    ids=lambda words: words[0] if isinstance(words, list) else None,
)
def test_invalid_requests(shell: Shell, words: list[str], said: str) -> None:
    """What can't be forecast is refused, with what works."""
    came = shell("power", *words)

    assert came.code == 2
    assert said in " ".join(came.err.split())


def test_progress_counts_runs_and_tasks(tmp_path: Path) -> None:
    """Both loops that take time can be followed: the one over runs and the one over tasks."""
    document, loops = real_document(tmp_path / "real"), dict[str, int]()
    for seed in range(3):
        write(tmp_path / "runs", changed(document, "acrobot", "mine", [-70.0 + seed, -72.0 + seed, -71.0], seed))

    def follow(what: str, items: Sequence[Item], /) -> Iterable[Item]:
        loops[what] = len(items)
        return items

    found = evopolicygym.power(20, tmp_path / "runs", in_returns=True, tasks=["acrobot", "ant"], follow=follow)

    assert (loops, len(found.tasks)) == ({"reading runs": 3, "forecasting": 2}, 2)
