"""Forecasts of power come true on simulated suites, and say what repeats take."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from benchmark_module import load
from evopolicygym.analysis.ranking.power import (
    STRATA,
    Plan,
    RunNeeds,
    TaskVariances,
    chi_squared,
    chi_squared_quantile,
    find_power,
    forecast,
    least_difference,
    repeats_to_find,
)

POWER = load("power")
BY_NAME = {scenario.name: scenario for scenario in POWER.SCENARIOS}


@pytest.mark.parametrize("name", ["runs vary most", "agents differ by case"])
def test_forecasts_come_true(name: str) -> None:
    """The share of simulated comparisons that find a difference is within a tenth of the forecast."""
    found = np.mean(list(POWER.detections(BY_NAME[name], 120, seed=1)))

    assert abs(found - POWER.expected(BY_NAME[name])) <= 0.1


@pytest.mark.nightly
@pytest.mark.parametrize("name", [each.name for each in POWER.SCENARIOS if each.draw is POWER.normal])
def test_all_forecasts_come_true(name: str) -> None:
    """The same holds in every scenario with normal returns, over many suites."""
    found = np.mean(list(POWER.detections(BY_NAME[name], 800, seed=2)))

    assert abs(found - POWER.expected(BY_NAME[name])) <= 0.1


@pytest.mark.nightly
def test_the_range_of_a_pilot_holds_the_right_number() -> None:
    """Of pilots of two agents with five runs each, four in five give a range with the repeats that it takes."""
    assert np.mean(list(POWER.pilots(BY_NAME["runs vary most"], 60, seed=3))) >= 0.75


def test_power_of_a_known_variance_is_students() -> None:
    """Where only cases vary, the power at 80 % is the textbook's: 2.84 standard errors with many of them."""
    only_cases = TaskVariances("task", 1e-6, 0.0, 100.0, math.inf, None)

    assert find_power(2.8016, [only_cases], 5, 100) == pytest.approx(0.79, abs=0.01)
    assert least_difference([only_cases], 0.8, 5, 100) == pytest.approx(2.84, abs=0.02)


def test_repeats_and_least_difference_are_inverse() -> None:
    """The fewest repeats reach the power, one less does not, and their least difference is not above the asked one."""
    task = TaskVariances("task", 1.0, 4.0, 0.5, 8.0, None)
    repeats = repeats_to_find(1.5, [task], 0.8, 32)

    assert repeats == 10
    assert find_power(1.5, [task], repeats, 32) >= 0.8 > find_power(1.5, [task], repeats - 1, 32)
    assert (least_difference([task], 0.8, repeats, 32) or 2.0) <= 1.5


@pytest.mark.parametrize(("repeats", "tasks", "power"), [(3, 1, 1.0), (3, 2, 0.0), (4, 6, 1.0), (4, 7, 0.0)])
def test_no_difference_is_found_below_the_least_p_value(repeats: int, tasks: int, power: float) -> None:
    """However far two agents differ, three repeats name the better one on one task of one, and on none of two."""
    found = forecast(
        Plan(100.0, is_normalised=False, repeats=repeats), [TaskVariances("a", 1.0, 0.0, 0.0, 8.0, None)] * tasks
    )

    assert {round(row.power or 0.0, 2) for row in found} == {power}
    assert {row.least is None for row in found} == {not power}


def test_episodes_hours_and_cost_are_of_both_agents() -> None:
    """Ten runs of 128 train, 48 validation and 32 held-out episodes, half an hour and a dollar each."""
    task = TaskVariances("task", 1.0, 0.0, 0.0, 8.0, 10.0, RunNeeds(128, 48, 0.5, 1.0, 3))
    (found,) = forecast(Plan(0.2, repeats=5), [task])

    assert (found.difference, found.episodes, found.hours, found.cost) == (2.0, 2080, 5.0, 10.0)


def test_a_forecast_has_no_unit() -> None:
    """In another unit of returns the same repeats find the differences, which are in that unit."""
    unit, plan = 1e4, Plan(0.3, repeats=4)
    before, after, *asked = (
        forecast(
            replace(plan, repeats=repeats),
            [
                TaskVariances("a", factor**2, 4 * factor**2, factor**2 / 2, 8.0, 10.0 * factor),
                TaskVariances("b", 2 * factor**2, 8 * factor**2, 0.0, 8.0, 5.0 * factor),
                TaskVariances("c", factor**2, 0.0, 0.0, 8.0, None),
            ],
        )
        for repeats in (4, None)
        for factor in (1.0, unit)
    )

    assert [row.power for row in after] == [row.power and pytest.approx(row.power) for row in before]
    assert [row.difference for row in after] == pytest.approx([3.0 * unit, 1.5 * unit, None, 0.3])
    assert [row.least for row in after[:2]] == pytest.approx([unit * (row.least or 0) for row in before[:2]], rel=1e-4)
    assert [row.repeats for row in asked[0]] == [row.repeats for row in asked[1]]


@pytest.mark.parametrize("freedom", [1, 4, 30])
def test_strata_are_chi_squared(freedom: int) -> None:
    """Strata are the means of equally probable parts of the distribution, and quantiles nearly the books'."""
    shares = (np.arange(STRATA) + 0.5) / STRATA
    expected = stats.chi2.ppf(shares, freedom) / freedom
    middle = slice(STRATA // 8, STRATA - STRATA // 8)

    assert chi_squared(freedom)[middle] == pytest.approx((expected / expected.mean())[middle], rel=0.01)
    assert chi_squared(freedom).mean() == pytest.approx(1)
    for share in (0.1, 0.5, 0.9) if freedom > 1 else (0.5, 0.9):
        assert chi_squared_quantile(freedom, share) * freedom == pytest.approx(stats.chi2.ppf(share, freedom), rel=0.05)
