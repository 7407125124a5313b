"""Draws of mean 0 and variance 1 that synthetic returns are made of, and tables of runs with such returns."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from evopolicygym.analysis.published.score_tables import shipped
from evopolicygym.analysis.ranking.score_table import ScoreTable, score_table
from evopolicygym.core.task import Anchor

Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


def normal(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Return normal draws."""
    return random.normal(size=shape)


def skewed(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Return draws with a long tail below."""
    return 1 - random.exponential(size=shape)


def bimodal(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Return draws of two values, as of runs that solve a task or don't, with equal chances and a little noise."""
    sides = np.where(random.random(shape) < 0.5, -1.0, 1.0)  # noqa: PLR2004 - equal chances
    return np.asarray((sides + 0.05 * random.normal(size=shape)) / np.sqrt(1 + 0.05**2))


def table_of(returns: Mapping[tuple[str, str], np.ndarray], random: float) -> ScoreTable:
    """Return the table of runs, from returns by agent and task, shaped (repeats, cases), and uniform random's mean."""
    template = next(run for run in shipped("baselines").runs if run.agent == "tuner")
    runs = [
        replace(
            template, run_id=f"{agent}-{task}-{seed}", root=Path(f"{agent}-{task}-{seed}"), task=task, agent=agent,
            agent_kind=agent, model=None, seed=seed, commitment=task, held_out_returns=tuple(row.tolist()),
            random_anchor=Anchor(random, 0.0, 256), idle_anchor=None, reference_anchor=None,
        )
        for (agent, task), rows in returns.items()
        for seed, row in enumerate(rows)
    ]  # fmt: skip
    return score_table(runs, ())
