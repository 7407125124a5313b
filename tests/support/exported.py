"""Runs to be exported: real ones, and journals of what no simulator here would give."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evopolicygym.core.agent import AgentConfig
from evopolicygym.core.event import Event
from evopolicygym.core.rollout import Recording
from evopolicygym.core.spaces import Box, to_schema
from evopolicygym.core.task import BudgetRule, EnvironmentSpec, Task
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.rows import columns
from evopolicygym.records.trajectories import EpisodeFiles, Trajectory, write_episode
from evopolicygym.records.writer import RunWriter
from evopolicygym.runs.config import RunConfig
from fakes import charged, opening, published, trained
from whole_runs import played

ANY_SPACE = """
import random

class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        pass
    def reset(self, episode_index):
        pass
    def act(self, obs):
        return {"go": random.randrange(2), "aim": [random.uniform(-2, 2), 0.1]}
"""


def recorded(root: Path, events: Iterable[Event]) -> RunPaths:
    """Write a run's journal and nothing else of it."""
    first, *others = events
    with RunWriter(root, first) as writer:
        for event in others:
            writer.record(event)
    return RunPaths(root)


def small_run(runs: Path, spec: EnvironmentSpec, agent: str, budget: int = 2) -> RunPaths:
    """Play a real run with one hidden case a split, on one core; simulators of the tests can be its environment."""
    task = Task(spec, BudgetRule(budget), validation_cases=1, held_out_cases=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=":")
        return played(RunConfig(task, AgentConfig(agent), runs=runs, workers=1)).paths


def film(root: Path, steps: int, side: int) -> RunPaths:
    """Write a run of one train episode whose observations are pictures of noise."""
    space = Box((side, side, 3), "uint8", 0.0, 255.0)
    opened = opening(observation_schema=to_schema(space))
    event = trained(0, 0)
    event = replace(event, episode=replace(event.episode, length=steps))
    paths = recorded(root, [opened, charged(0, 1), event, published(0)])
    pictures = np.random.default_rng(0).integers(0, 255, (steps + 1, side, side, 3), np.uint8)
    trajectory = Trajectory(
        pictures, np.zeros(steps, np.int64), np.ones(steps), [{}] * steps, frozenset(), terminated=True, truncated=False
    )
    write_episode(paths.train_episode(0, 0), EpisodeFiles(trajectory, b"", b"", None, ()), Recording.TRAJECTORY)
    return paths


def fields(row: Any) -> dict[str, Any]:
    """Return a row by its columns."""
    return {column.name: column.cell(row) for column in columns(type(row))}
