"""Verdicts on headroom are seldom wrong: on simulated suites of equal agents, and of agents that differ."""

import pytest

from benchmark_module import load
from evopolicygym.analysis.headroom.spread import HeadroomVerdict

HEADROOM_VERDICTS = load("headroom_verdicts")
BY_NAME = {one.returns.name: one for one in HEADROOM_VERDICTS.SCENARIOS}


@pytest.mark.parametrize("name", ["4 equal agents, little varies", "6 equal agents, cases vary most"])
def test_a_suite_of_equal_agents_is_spent(name: str) -> None:
    """Of 15 suites of equal agents at the best known score, hardly any shows a difference, and nearly all are spent."""
    found = HEADROOM_VERDICTS.verdicts(BY_NAME[name], 3, 15, seed=3)

    assert found.any_difference <= 0.15
    assert found.suites[HeadroomVerdict.SPENT] >= 0.85


def test_equal_agents_below_the_best_are_no_spent_suite() -> None:
    """A suite that is too hard for all of its agents leaves headroom, and is not called spent."""
    found = HEADROOM_VERDICTS.verdicts(BY_NAME["4 equal agents below a reference"], 3, 10, seed=3)

    assert found.suites[HeadroomVerdict.TOO_HARD_OR_NOISY] >= 0.9
    assert HeadroomVerdict.SPENT not in found.tasks


def test_a_suite_with_a_known_spread_is_not_spent() -> None:
    """Of 10 suites whose agents differ by a sixth of the scale, all distinguish them, on nearly all tasks."""
    found = HEADROOM_VERDICTS.verdicts(BY_NAME["6 agents, apart"], 3, 10, seed=3)

    assert found.suites == {HeadroomVerdict.DISTINGUISHES: 1.0}
    assert found.tasks.get(HeadroomVerdict.SPENT, 0.0) <= 0.02
    assert found.tasks[HeadroomVerdict.DISTINGUISHES] >= 0.8


def test_single_runs_decide_nothing() -> None:
    """With one run of each agent, no suite is said to distinguish them, though all runs differ."""
    found = HEADROOM_VERDICTS.verdicts(BY_NAME["6 agents, apart"], 1, 5, seed=3)

    assert found.any_difference == 0
    assert found.suites == {HeadroomVerdict.ONE_RUN_EACH: 1.0}
