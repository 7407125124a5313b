"""Runs in two groups are found where they are, seldom where they aren't, and have an interval that holds."""

from pathlib import Path

import numpy as np
import pytest

from evopolicygym.analysis.ranking.bootstrap import Block, Sample
from evopolicygym.analysis.ranking.run_groups import find_groups
from evopolicygym.analysis.ranking.score_table import Cell
from evopolicygym.specs import catalog
from records_of_runs import changed, real_document, write
from shell import Shell

pytestmark = pytest.mark.made_up


def share_found(draws: np.ndarray) -> float:
    """Return the share of samples, shaped (samples, runs), that are said to be in two groups."""
    return float(np.mean([find_groups(runs) is not None for runs in draws]))


def two_groups(random: np.random.Generator, shape: tuple[int, ...], share: float = 0.5) -> np.ndarray:
    """Return runs of which a share is twenty within-group standard deviations higher."""
    return np.asarray(random.normal(size=shape) + 20.0 * (random.random(shape) < share))


@pytest.mark.parametrize("runs", [3, 5, 10, 30])
def test_one_normal_group_is_seldom_two(runs: int) -> None:
    """Of 2,000 normal samples, 1 % is said to be in two groups, give or take the accuracy of the count."""
    assert 0.004 <= share_found(np.random.default_rng(runs).normal(size=(2000, runs))) <= 0.017


@pytest.mark.parametrize(("runs", "least"), [(5, 0.75), (6, 0.9), (10, 0.97)])
def test_two_groups_are_found(runs: int, least: float) -> None:
    """Groups that are twenty standard deviations apart are found from five runs on, unless all runs fall in one."""
    assert share_found(two_groups(np.random.default_rng(runs), (500, runs))) >= least


def test_exact_groups_are_found_by_three_runs() -> None:
    """An agent whose runs leave the starter's score once has two groups; equal runs have one."""
    found = find_groups(np.array([-50.0, -9.0, -50.0]))

    assert found
    assert (found.low, found.high, found.low_runs, found.high_runs) == (-50.0, -9.0, 2, 1)
    assert find_groups(np.array([-50.0, -50.0, -50.0])) is None
    assert find_groups(np.array([-50.0, -9.0])) is None


@pytest.mark.parametrize(("runs", "share"), [(5, 0.5), (10, 0.2)])
def test_the_interval_of_found_groups_holds(runs: int, share: float) -> None:
    """Where two groups are found, 95 % of intervals hold the true mean at least."""
    random, held = np.random.default_rng(runs), []
    for means in two_groups(random, (300, runs), share):
        returns = means[:, None] + random.normal(size=8) + random.normal(size=(runs, 8))
        sample = Sample((Block("cases", returns),))
        cell = Cell(sample.mean, sample.standard_error, (), sample)
        if cell.groups and (interval := cell.interval):
            held.append(interval.low <= 20.0 * share <= interval.high)

    assert len(held) >= 150
    assert np.mean(held) >= 0.94


def test_repeats_for_a_quarter_of_the_distance() -> None:
    """One solved run of five says little: it takes more runs for an interval of a quarter to either side."""
    found = find_groups(np.array([0.0, 0.0, 0.0, 0.0, 1.0]))

    assert found
    assert found.repeats_needed == 12
    assert found.interval(0.0).low == pytest.approx(0.00505, abs=1e-4)
    assert found.interval(0.0).high == pytest.approx(0.7164, abs=1e-4)


@pytest.mark.parametrize(("repeats", "chance"), [(1, 0.975), (3, 0.708), (10, 0.308)])
def test_unseen_failures_are_bounded(tmp_path: Path, shell: Shell, repeats: int, chance: float) -> None:
    """Runs that all went well don't exclude ones that fail: the mean may be so much nearer to uniform random."""
    document = real_document(tmp_path / "real")
    for seed in range(repeats):
        write(tmp_path / "runs", changed(document, "acrobot", "a", [-99.0 - seed / 9, -101.0 - seed / 9], seed))
    row = next(row for row in shell.json("leaderboard", tmp_path / "runs")["entries"] if row["entry"] == "a")
    found = row["tasks"]["acrobot"]
    random = catalog.load("acrobot").random_anchor

    assert random
    assert found["rare_failures"]["chance"] == pytest.approx(chance, abs=1e-3)
    assert found["rare_failures"]["low"] <= found["mean"] - chance * (found["mean"] - random.mean) + 0.5
