"""The forecast of a run's disk: said where it is large, refused where it can't fit, before anything is played."""

import shutil
from collections import namedtuple
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evopolicygym.api.play.run import notes_of
from evopolicygym.core.errors import UsageError
from evopolicygym.core.rollout import Recording
from evopolicygym.core.spaces import Box, to_schema
from evopolicygym.core.task import BudgetRule, FeedbackProfile, Task
from evopolicygym.records.trajectories import EpisodeFiles, Trajectory, write_episode
from evopolicygym.runs.disk_forecast import LEAST_SHARE, disk_note, forecast_bytes, refuse_full_disk
from fakes import TOY, RunMaker
from whole_runs import config, played

Usage = namedtuple("Usage", "total used free")  # noqa: PYI024 - as shutil has it
PIXELS = to_schema(Box((84, 84, 3), "uint8", 0, 255))
STATE = to_schema(Box((8,), "float32", -np.inf, np.inf))


def long_task(steps: int, episodes: int, feedback: FeedbackProfile = FeedbackProfile.FULL) -> Task:
    return Task(replace(TOY, max_steps=steps), BudgetRule(episodes), feedback=feedback)


def have_free(monkeypatch: pytest.MonkeyPatch, free: float) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**15, 0, int(free)))


@pytest.mark.parametrize(("shape", "dtype"), [((8,), "float32"), ((84, 84, 3), "uint8")])
def test_an_episode_takes_no_more_than_forecast(tmp_path: Path, shape: tuple[int, ...], dtype: str) -> None:
    """An episode of full length whose observations are noise takes at most the forecast, and half of it at least."""
    steps, random = 200, np.random.default_rng(0)
    trajectory = Trajectory(
        observations=(random.normal(size=(steps + 1, *shape)) * 100).astype(dtype),
        actions=random.integers(4, size=steps),
        rewards=random.normal(size=steps),
        infos=[{}] * steps,
        clipped=frozenset(),
        terminated=True,
        truncated=False,
    )
    write_episode(tmp_path / "0", EpisodeFiles(trajectory, b"", b"", None, ()), Recording.TRAJECTORY)
    size = sum(path.stat().st_size for path in (tmp_path / "0").iterdir())
    forecast = forecast_bytes(long_task(steps, 1), to_schema(Box(shape, dtype, 0, 255))) - 100_000

    assert forecast / 2 < size < forecast


def test_a_forecast_grows_with_episodes_and_steps() -> None:
    """Twice the episodes take twice the disk; without trajectories, steps count for nothing."""
    size = forecast_bytes(long_task(1000, 100), PIXELS)

    assert forecast_bytes(long_task(1000, 200), PIXELS) == 2 * size
    assert 1.9 < forecast_bytes(long_task(2000, 100), PIXELS) / size < 2.0
    assert forecast_bytes(long_task(1000, 100, FeedbackProfile.RETURNS), PIXELS) == 100 * 100_000
    assert forecast_bytes(long_task(1000, 100), STATE) < size / 10


def test_a_large_forecast_is_said(new_run: RunMaker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A run that may need more than is free is opened with a note, and any other without."""
    large = long_task(1000, 100)
    most = forecast_bytes(large, PIXELS)
    run = new_run()
    have_free(monkeypatch, most)
    assert disk_note(large, PIXELS, tmp_path) == ""
    assert list(notes_of(run.paths.root, run.writer.state)) == []

    have_free(monkeypatch, most / 2)
    assert "up to 2.1 GB" in disk_note(large, PIXELS, tmp_path)
    have_free(monkeypatch, 1000)
    assert len(list(notes_of(run.paths.root, run.writer.state))) == 1


def test_what_cannot_fit_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A run is refused where the least that it needs is more than is free."""
    large = long_task(1000, 100)
    least = forecast_bytes(large, PIXELS) * LEAST_SHARE
    have_free(monkeypatch, least + 1)
    refuse_full_disk(large, PIXELS, tmp_path)
    have_free(monkeypatch, least - 1)

    with pytest.raises(UsageError, match="--feedback returns"):
        refuse_full_disk(large, PIXELS, tmp_path)


def test_a_refused_run_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A run that is refused for its disk leaves no directory behind."""
    have_free(monkeypatch, 10)

    with pytest.raises(UsageError, match="Invalid disk"):
        played(config(tmp_path / "runs", agent="tuner", budget=6))
    assert not list((tmp_path / "runs").rglob("journal.jsonl"))
