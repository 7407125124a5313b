"""The actions that are played for a policy that failed come from a stream of their own."""

from dataclasses import replace
from pathlib import Path

import pytest

from evopolicygym.core.rollout import FailureReason
from playground import local_executor, policy
from simulators import spec

RAISES = policy("raise ValueError")
OVERFLOWS = policy("return np.full(2, 3e38)")
"""Breaks the simulator each time, so that the anchor plays the case from its start."""


@pytest.mark.parametrize(
    ("actions", "hostile", "reason"),
    [
        ("discrete", RAISES, FailureReason.ERROR),
        ("box", RAISES, FailureReason.ERROR),
        ("boundless", RAISES, FailureReason.ERROR),
        ("boundless", OVERFLOWS, FailureReason.INVALID_ACTION),
    ],
)
def test_a_failure_does_not_meet_the_simulators_draws(
    actions: str, hostile: str, reason: FailureReason, tmp_path: Path
) -> None:
    """Where a simulator pays for what it drew itself, a policy that fails at once gets nothing."""
    hidden = replace(spec("HiddenDraw", actions=actions), imports=("hidden_draws",))
    with local_executor("process", hidden, tmp_path) as ground:
        episode = ground.play_one(hostile, seed=7).episode

    assert (episode.failure and episode.failure.reason, episode.episode_return) == (reason, 0.0)
