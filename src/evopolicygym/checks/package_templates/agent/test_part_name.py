"""The agent keeps its contract, and plays a run."""

from pathlib import Path

import evopolicygym


def test_it_plays_a_run(tmp_path: Path) -> None:
    """It spends the whole budget, and its run has a score."""
    run = evopolicygym.run("cartpole", agent="part_name", budget=8, validation=1, held_out=2, runs=str(tmp_path))

    assert (run.agent, run.summary["spent"]) == ("part_name", 8)
    assert run.score is not None


def test_it_keeps_its_contract() -> None:
    """It can be stopped in the middle and resumed, and leaves nothing behind."""
    assert [finding for finding in evopolicygym.check_agent("part_name") if not finding.ok] == []
