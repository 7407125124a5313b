"""A task on which the best agent is above random by no more than noise has no scale, and is in no mean."""

from pathlib import Path

import numpy as np
import pytest

from evopolicygym.specs import catalog
from records_of_runs import changed, real_document, write
from shell import Shell

pytestmark = pytest.mark.made_up


def write_runs(below: Path, above: float) -> Path:
    """Write runs of two agents on two tasks; on pusher the better one is so far above random."""
    document, random = real_document(below / "real"), np.random.default_rng(1)
    anchor = catalog.load("pusher").random_anchor
    assert anchor
    for task, means in {"acrobot": (-90.0, -120.0), "pusher": (anchor.mean - 21.5, anchor.mean + above)}.items():
        for agent, mean in zip("AB", means, strict=True):
            for seed in range(3):
                returns = mean + random.normal(size=16) + 0.3 * random.normal()
                write(below / "runs", changed(document, task, agent, returns.tolist(), seed))
    return below / "runs"


def test_a_tiny_scale_is_none(tmp_path: Path, shell: Shell) -> None:
    """The leaderboard, its aggregates, compare and effects leave the task out, and name it."""
    runs = write_runs(tmp_path, 0.06)
    board, pair = shell.json("leaderboard", runs), shell.json("compare", "A", "B", runs)
    headroom = {task["task"]: task for task in shell.json("headroom", runs)["tasks"]}

    assert {row["tasks"]["pusher"]["normalised"] is None for row in board["entries"]} == {True}
    assert any("pusher" in note and "normalised" in note for note in board["notes"])
    assert 0 < pair["normalised_difference"]["value"] < 1
    assert {task["task"]: task["normalised_difference"] is None for task in pair["tasks"]} == {
        "pusher": True, "acrobot": False,
    }  # fmt: skip
    assert [row["mean"]["value"] > 0.5 for row in board["aggregates"]["entries"]][:2] == [True, True]
    assert (headroom["pusher"]["left"], headroom["acrobot"]["left"] is None) == (None, False)


def test_a_scale_beyond_noise_is_one(tmp_path: Path, shell: Shell) -> None:
    """A best agent that is above random by more than noise is the scale's end."""
    board = shell.json("leaderboard", write_runs(tmp_path, 20.0))

    assert next(row for row in board["entries"] if row["entry"] == "B")["tasks"]["pusher"]["normalised"]["value"] == 1
