"""The limit of a policy's time in hidden episodes, which follows from its train episodes."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

import evopolicygym
from evopolicygym.core.cases import Split
from evopolicygym.core.event import EpisodePlayed
from evopolicygym.core.rollout import FailureReason, Rollout
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import read_run
from evopolicygym.runs import run as runs
from playground import one_worker, policy
from simulators import spec
from whole_runs import events

PRINTS = policy(
    "print(obs.tolist() if self.first else '', flush=True)\nself.first = False\nreturn 0", "self.first = True"
)
"""Plays quickly, and prints what it sees first."""


def sleeping(seen: list[float]) -> str:
    """Return a policy that plays quickly where it sees this first, and sleeps elsewhere."""
    act = f"""
    if self.slow is None:
        self.slow = bool(abs(obs - {seen}).max() > 1e-6)
    if self.slow:
        time.sleep(4)
    return 0
    """
    return policy(act, "self.slow = None")


def test_who_sleeps_in_hidden_episodes_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its hidden episode is a timeout with the limit named, which the record gives and a replay repeats."""
    monkeypatch.setattr(runs, "HIDDEN_PACE", 1.0)
    monkeypatch.setattr(runs, "HIDDEN_GRACE_S", 2.0)

    def submit(session: evopolicygym.Session) -> None:
        printed = session.submit(PRINTS, [0])
        first = next((printed.directory / "episodes").rglob("stdout.txt")).read_text().splitlines()[0]
        session.submit(sleeping(json.loads(first)), [0])

    how = {"budget": 2, "validation": 1, "held_out": 1, "split": "public", "workers": 1}
    run = evopolicygym.run("cartpole", submit, runs=tmp_path, **how)  # type: ignore[arg-type] # as on a command line
    state = read_run(run.path).state
    quick, slow = (submission.charged.checkpoint for submission in state.submissions)
    (episode,) = state.rollout(Split.VALIDATION, slow).episodes
    train = [event.episode for event in events(RunPaths(run.path)) if isinstance(event, EpisodePlayed)][1]

    assert episode
    assert episode.failure
    assert (episode.failure.reason, episode.failure.step) == (FailureReason.TIMEOUT, 0)
    assert f"{state.hidden_limit_s(slow):g} s" in episode.failure.message
    assert state.hidden_limit_s(slow) == round(2 + max(train.seconds, 500 * (train.act_seconds or 0)), 1)
    assert [each.failure for each in state.rollout(Split.VALIDATION, quick).episodes if each] == [None]
    assert evopolicygym.verify(run.path, replay=True).failed == ()


def test_the_moment_of_the_limit_is_no_matter(tmp_path: Path) -> None:
    """The anchor plays such an episode from its start, as it does for a policy that fails at once."""
    with one_worker("process", spec("Plain"), tmp_path) as ground:
        (job,) = ground.jobs(3)
        checkpoints = [
            ground.checkpoint(policy(act)) for act in ("time.sleep(0.3)\nreturn self.still", "raise ValueError")
        ]
        limited, failed = (
            next(ground.executor.play([Rollout(checkpoint, ground.context, [each])], lambda *_: None))[2]
            for checkpoint, each in zip(checkpoints, (replace(job, most_s=0.5), job), strict=True)
        )

    assert limited.failure
    assert limited.failure.reason is FailureReason.TIMEOUT
    assert limited.trajectory_sha256 == failed.trajectory_sha256
