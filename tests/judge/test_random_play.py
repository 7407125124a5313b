"""A score that is that of random play is marked as such, wherever a run's result is printed."""

from dataclasses import replace
from pathlib import Path

import pytest

from evopolicygym.cli.outcome import random_play
from evopolicygym.core.event import CheckpointSelected, CloseReason, Event, RunClosed, RunFinished, RunStatus
from evopolicygym.core.run import fold
from evopolicygym.core.score import estimate
from evopolicygym.core.task import Anchor
from fakes import TIME, TOY, held_out, opening, submitted, task, validated
from shell import Shell


def scored(returns: list[float], anchor: Anchor | None) -> list[Event]:
    """Return a run with these held-out returns, in an environment with this random anchor."""
    found = estimate(returns)
    toy = replace(TOY, random_anchor=anchor)
    return [
        opening(task=replace(task(held_out_cases=len(returns)), environment=toy)),
        *submitted(0, [1.0] * 8),
        RunClosed(TIME, CloseReason.BUDGET_SPENT),
        *validated("a", [1.0, 1.0]),
        CheckpointSelected(TIME, 0, "a", 1.0),
        *held_out("a", returns),
        RunFinished(TIME, RunStatus.SCORED, found.mean, found.standard_error),
    ]


@pytest.mark.parametrize(
    ("returns", "anchor", "is_random"),
    [
        ([1.0, 2.0, 3.0], Anchor(3.0, 0.1, 256), True),
        ([1.0, 2.0, 3.0], Anchor(0.8, 0.1, 256), False),
        ([1.0, 2.0, 3.0], Anchor(3.3, 0.1, 256), False),
        ([0.0, 0.0], Anchor(0.0, 0.0, 256), True),
        ([0.0, 0.1], Anchor(0.0, 0.0, 256), True),
        ([0.1, 0.1], Anchor(0.0, 0.0, 256), False),
        ([3.0], Anchor(3.0, 0.1, 256), False),
        ([1.0, 2.0, 3.0], None, False),
    ],
)
def test_a_score_within_the_noise_of_random_play(
    returns: list[float], anchor: Anchor | None, *, is_random: bool
) -> None:
    """A score is marked where it is within two standard errors of the random anchor, and where both are known."""
    assert bool(random_play(fold(scored(returns, anchor)))) == is_random


def test_the_starter_is_marked(shell: Shell, tmp_path: Path) -> None:
    """A run of the agent that leaves the starter as it is says in its result and in show that the score is random."""
    small = ("--budget", 2, "--validation", 1, "--held-out", 2, "--workers", 1, "--isolation", "process")
    left = shell("run", "cartpole", "--agent", "random", *small, "--runs", tmp_path / "runs")
    (document,) = (tmp_path / "runs").rglob("run.json")

    for text in (left.out, shell.printed("show", document.parent)):
        assert "random play" in text
        assert "the starter" in text
    assert "the starter" in shell.json("show", document.parent)["random_play"]


def test_a_run_without_a_score_is_not_marked() -> None:
    """Where there is no score, nothing is said of it."""
    assert random_play(fold([opening()])) == ""
