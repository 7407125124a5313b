"""Intervals of effects hold the truth as often as they say, and Holm's p-values seldom cry wolf."""

import pytest

from benchmark_module import load

EFFECTS = load("effects_coverage")
BY_NAME = {one.name: one for one in EFFECTS.SCENARIOS}


@pytest.mark.parametrize("name", ["effects differ", "5 repeats, runs vary most"])
def test_intervals_hold_the_truth(name: str) -> None:
    """Of 100 simulated suites, about 95 % of the intervals hold what is true of these environments."""
    came = EFFECTS.coverage(BY_NAME[name], 100, seed=7)

    assert all(0.915 <= share <= 0.985 for share in came.covered.values())


def test_few_suites_have_a_false_positive() -> None:
    """Where no knob has an effect, few suites of 100 show one anywhere."""
    came = EFFECTS.coverage(BY_NAME["nothing has an effect"], 100, seed=7)

    assert came.false_positives <= 0.08
    assert came.power is None


def test_effects_are_found() -> None:
    """Where the budget has an effect, most suites show it."""
    came = EFFECTS.coverage(BY_NAME["the usual"], 40, seed=7)

    assert came.power > 0.6
