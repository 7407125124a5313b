"""One decision: tiers and verdicts have the same p-values, which hold for equal agents of any distribution."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from records_of_runs import changed, real_document, write
from shell import Shell

pytestmark = pytest.mark.made_up

NEAR = {"a": (-87.478, -102.782, -97.053), "b": (-106.552, -101.465, -105.222)}
"""Means of runs of two equal agents."""


@pytest.fixture
def document(tmp_path: Path) -> dict[str, Any]:
    """Return a real run's document."""
    return real_document(tmp_path / "real")


def write_runs(
    below: Path, document: dict[str, Any], means: Mapping[str, Sequence[float]], tasks: Sequence[str] = ("acrobot",)
) -> Path:
    """Write runs of agents with these means on some tasks, on cases that differ and that runs find hard alike."""
    random = np.random.default_rng(0)
    for task in tasks:
        of_cases = random.normal(size=8)
        for agent, runs in means.items():
            for seed, mean in enumerate(runs):
                returns = mean + of_cases + 0.1 * random.normal(size=8)
                write(below, changed(document, task, agent, returns.tolist(), seed))
    return below


def tiers(board: Mapping[str, Any]) -> dict[str, int | None]:
    """Return the tiers of the entries that were played."""
    return {row["entry"]: row["tier"] for row in board["entries"] if row["kind"] == "agent"}


def test_a_tier_is_a_verdict(tmp_path: Path, shell: Shell, document: dict[str, Any]) -> None:
    """Two agents that ``compare`` doesn't tell apart share a tier, with the same p-value."""
    runs = write_runs(tmp_path / "runs", document, NEAR)
    board, pair = shell.json("leaderboard", runs), shell.json("compare", "a", "b", runs)

    assert (pair["verdict"], tiers(board)) == ("neither", {"a": 1, "b": 1})
    assert pair["p"] == pytest.approx(pair["tasks"][0]["p"])
    assert board["entries"][1]["behind_p"] == pair["p"] > 0.1


def test_tiers_are_corrected_for_the_pairs_of_entries(tmp_path: Path, shell: Shell, document: dict[str, Any]) -> None:
    """Of four entries, a tier takes a p-value that holds over all six pairs."""
    means = {agent: [-90.0 - place - 0.6 * seed for seed in range(4)] for place, agent in enumerate("abcd")}
    runs = write_runs(tmp_path / "runs", document, means)
    board, pair = shell.json("leaderboard", runs), shell.json("compare", "a", "d", runs)

    assert pair["verdict"] == "first"
    assert 6 * pair["p"] == pytest.approx(next(row for row in board["entries"] if row["entry"] == "d")["behind_p"])
    assert set(tiers(board).values()) == {1, 2}


@pytest.mark.parametrize(("repeats", "verdict"), [(2, "neither"), (3, "first"), (5, "first")])
def test_few_repeats_have_a_least_p_value(
    tmp_path: Path, shell: Shell, document: dict[str, Any], repeats: int, verdict: str
) -> None:
    """Agents that solve a task or don't are all alike by chance in one of eight pairs of two runs, 32 of three."""
    means = {"good": [-80.0 + seed / 9 for seed in range(repeats)], "bad": [-400.0 + seed for seed in range(repeats)]}
    runs = write_runs(tmp_path / "runs", document, means)
    board, pair = shell.json("leaderboard", runs), shell.json("compare", "good", "bad", runs)

    assert pair["tasks"][0]["p"] == pytest.approx(2 * 0.5 ** (2 * repeats))
    assert pair["verdict"] == pair["tasks"][0]["verdict"] == verdict
    assert tiers(board) == {"good": 1, "bad": 1 + (verdict == "first")}
    assert any(note.startswith("One tier") for note in board["notes"]) is (repeats == 2)


def test_tasks_decide_together(tmp_path: Path, shell: Shell, document: dict[str, Any]) -> None:
    """Two repeats decide no task, but five tasks together: Stouffer's sum of the tasks' deviates."""
    tasks = ("acrobot", "ant", "pusher", "reacher", "parking")
    runs = write_runs(tmp_path / "runs", document, {"a": (-80.0, -81.0), "b": (-400.0, -390.0)}, tasks)
    board, pair = shell.json("leaderboard", runs), shell.json("compare", "a", "b", runs)

    assert {task["verdict"] for task in pair["tasks"]} == {"neither"}
    assert pair["p"] == pytest.approx(0.000603, rel=0.01)
    assert (pair["verdict"], tiers(board)) == ("first", {"a": 1, "b": 2})


def test_equal_agents_seldom_differ(tmp_path: Path, shell: Shell, document: dict[str, Any]) -> None:
    """Six equal agents whose runs solve a task or don't share a tier, and no task says otherwise."""
    random = np.random.default_rng(5)
    for table in range(6):
        means = {agent: [-400.0 + 300.0 * (random.random() < 0.5) for _ in range(3)] for agent in "abcdef"}
        runs = write_runs(tmp_path / str(table), document, means)
        assert set(tiers(shell.json("leaderboard", runs)).values()) == {1}
