"""Aggregates over tasks: equal to those of the library rliable, and with intervals where runs give them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evopolicygym.analysis.published.score_tables import paper, shipped
from evopolicygym.analysis.ranking.aggregates import (
    aggregates,
    interquartile_mean,
    optimality_gap,
    performance_profile,
    pool_tasks,
    task_means,
)
from evopolicygym.analysis.ranking.bootstrap import Resampler
from evopolicygym.analysis.ranking.pairing import improvement, improvement_interval
from evopolicygym.analysis.ranking.score_table import score_table
from shell import Shell

RECORDED: list[dict[str, Any]] = json.loads(Path(__file__).with_name("rliable_values.json").read_text())
"""Written by ``benchmarks/rliable_values.py``."""


def by_task(rows: list[list[float]]) -> list[np.ndarray]:
    """Return the scores of each task's runs."""
    return list(np.array(rows).T)


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda each: "x".join(map(str, np.shape(each["scores"]))))
def test_aggregates_are_rliables(recorded: dict[str, Any]) -> None:
    """Every aggregate that rliable has too is the same to 1e-9, on scores and on resampled scores."""
    scores = by_task(recorded["scores"])
    each = [float(improvement(*pair)) for pair in zip(scores, by_task(recorded["others"]), strict=True)]
    found = {
        "interquartile_mean": interquartile_mean(pool_tasks(scores)),
        "median": np.median(task_means(scores)),
        "mean": task_means(scores).mean(),
        "optimality_gap": optimality_gap(pool_tasks(scores)),
        "profile": performance_profile(pool_tasks(scores), np.array(recorded["thresholds"])),
        "improvement": np.mean(each),
        "resampled_interquartile_means": [interquartile_mean(pool_tasks(by_task(x))) for x in recorded["resampled"]],
    }

    assert all(np.allclose(value, recorded[name], rtol=0, atol=1e-9) for name, value in found.items())


def test_tasks_weigh_the_same_at_any_number_of_runs() -> None:
    """A task with more repeats counts no more than the others."""
    few, many = np.array([0.0, 0.0]), np.array([1.0, 1.0, 1.0, 1.0, 1.0, 1.0])

    assert interquartile_mean(pool_tasks([few, many])) == 0.5


def test_the_papers_entries_have_no_interval() -> None:
    """Published means are aggregated too, without intervals."""
    found = aggregates(score_table([], [paper()]), normalise="known")

    assert (len(found.entries), {row.interquartile_mean.interval for row in found.entries}) == (5, {None})
    assert all(row.profile.low is None for row in found.entries)


def test_intervals_and_bands_hold_their_values() -> None:
    """Entries with repeats have intervals and bands around their values; bands fall with the threshold."""
    runs = [run for run in shipped("baselines").runs if run.agent in {"tuner", "random_search"}]
    found = aggregates(score_table(runs, []), normalise="known", resampler=Resampler(200))
    tuner = next(row for row in found.entries if row.entry.label == "tuner")
    interval = tuner.interquartile_mean.interval

    assert interval
    assert interval.low < tuner.interquartile_mean.value < interval.high
    assert (tuner.tasks, tuner.runs) == (11, 55)
    assert tuner.profile.low
    assert tuner.profile.high
    assert all(np.diff(tuner.profile.shares) <= 0)
    bands = zip(tuner.profile.low, tuner.profile.shares, tuner.profile.high, strict=True)
    assert all(low <= share <= high for low, share, high in bands)


@pytest.mark.parametrize(("repeats", "tasks", "widest"), [(1, 1, 1.0), (3, 1, 0.9), (3, 16, 0.27), (5, 16, 0.2)])
def test_the_improvement_has_a_useful_interval(repeats: int, tasks: int, widest: float) -> None:
    """The interval holds the share, has a width even if every pair was won, and is narrower with more pairs."""
    even, won = (improvement_interval(share, [(repeats, repeats)] * tasks) for share in (0.5, 1.0))

    assert even
    assert won
    assert even.low < 0.5 < even.high
    assert won.low < 1.0 == won.high
    assert even.high - even.low <= widest


def test_the_leaderboard_shows_aggregates(shell: Shell) -> None:
    """``leaderboard --show aggregates`` shows one table, also as CSV and JSON; no score is cut at the best known."""
    asked = ("leaderboard", "--tables", "paper,references", "--normalise", "known", "--family", "gym_box2d")
    entries = {row["entry"]: row for row in shell.json(*asked)["aggregates"]["entries"]}
    header = shell.printed(*asked, "--show", "aggregates", "--format", "csv").splitlines()[0]

    assert entries["GPT-5.5 (Codex)"]["optimality_gap"]["value"] > 0
    assert len(entries["reference"]["profile"]["shares"]) == 101
    assert header.startswith("entry,tasks,runs,interquartile_mean,interquartile_mean_low")
