"""What a single run can't tell: nothing is decided between agents below two repeats of each."""

from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from benchmark_module import load
from records_of_runs import changed, real_document, write
from shell import Shell

pytestmark = pytest.mark.made_up

FALSE_POSITIVES = load("false_positives")
FAR = {"good": -80.0, "bad": -400.0}


def runs(tmp_path: Path, repeats: int) -> Path:
    """Write runs of two agents that lie far apart."""
    document = real_document(tmp_path / "real")
    for agent, mean in FAR.items():
        for seed in range(repeats):
            returns = [mean + seed + case / (4 if agent == "good" else 5) for case in range(8)]
            write(tmp_path / "runs", changed(document, "acrobot", agent, returns, seed))
    return tmp_path / "runs"


@pytest.mark.parametrize(
    ("repeats", "verdict", "covers"),
    [(1, None, "cases"), (2, "neither", "runs and cases"), (3, "first", "runs and cases")],
)
def test_compare_decides_nothing_by_one_run(
    tmp_path: Path, shell: Shell, repeats: int, verdict: str | None, covers: str
) -> None:
    """Compare has a verdict from two repeats of each on; its intervals are labelled by what they cover."""
    found: dict[str, Any] = shell.json("compare", "good", "bad", runs(tmp_path, repeats))
    (task,) = found["tasks"]

    assert (task["verdict"], task["repeats"], task["interval_covers"]) == (verdict, [repeats] * 2, covers)
    assert found["tasks_first_better"] == {None: None, "neither": 0, "first": 1}[verdict]
    assert any("another run" in note for note in found["notes"]) is (verdict is None)


def test_compare_prints_the_note(tmp_path: Path, shell: Shell) -> None:
    """On a terminal there is no column for verdicts of single runs, and the reason stands below the table."""
    told = shell.printed("compare", "good", "bad", runs(tmp_path, 1))

    assert "better" not in told
    assert [line for line in told.splitlines() if line.startswith("- ") and "verdict" in line]


@pytest.mark.parametrize(("repeats", "tiers"), [(1, {None}), (3, {1, 2, None})])
def test_single_runs_have_no_tier(tmp_path: Path, shell: Shell, repeats: int, tiers: set[int | None]) -> None:
    """The leaderboard puts entries into tiers from two repeats on, and says why it doesn't before."""
    found = shell.json("leaderboard", runs(tmp_path, repeats))
    printed = shell.printed("leaderboard", tmp_path / "runs", "--per-task")

    assert {one["tier"] for one in found["entries"]} == tiers
    assert bool([line for line in printed.splitlines() if line.endswith("no tier.")]) is (repeats == 1)
    assert {one["intervals_cover"] for one in found["entries"]} == {None, "cases" if repeats == 1 else "runs and cases"}


@pytest.mark.parametrize("entries", [1, pytest.param(4, marks=pytest.mark.nightly)])
def test_an_agent_is_seldom_better_than_itself(entries: int) -> None:
    """Of shipped entries that are split in two, at most 5 % have a verdict, and none where a side is one run."""
    said: dict[bool, list[Any]] = {True: [], False: []}
    for entry in islice(FALSE_POSITIVES.entries(), entries):
        for half, other in FALSE_POSITIVES.splits(entry):
            said[min(len(half), len(other)) > 1].append(FALSE_POSITIVES.compared(half, other).verdict)

    assert (len(said[True]), set(said[False])) == (25 * entries, {None})
    assert sum(verdict != "neither" for verdict in said[True]) <= 0.05 * 25 * entries
