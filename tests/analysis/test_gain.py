"""Gains on the same cases: what is beyond noise, and how seldom noise is taken for a gain."""

import numpy as np
import pytest

from evopolicygym.analysis.lineage.lineage import Gain, gain


def of(*differences: float) -> Gain:
    """Return the gain of some differences by case."""
    found = gain([0.0] * len(differences), differences)
    assert found is not None
    return found


def test_a_gain_by_hand() -> None:
    """Of the differences 1 to 5 the mean is 3, the interval Student's of 90 %, and one flip of 32 is as high."""
    found = of(1, 2, 3, 4, 5)

    assert found.mean == 3
    assert found.interval is not None
    assert found.interval.low == pytest.approx(3 - 2.131847 * (2.5 / 5) ** 0.5, abs=1e-3)
    assert found.p_value == 1 / 32
    assert found.is_real


@pytest.mark.parametrize(
    ("differences", "is_real"),
    [
        ([1.0], False),
        ([1.0] * 4, False),
        ([1.0] * 5, True),
        ([1e-9] * 16, True),
        ([2.0] + [0.0] * 15, False),
        ([1.0, 1.0] + [0.0] * 14, False),
        ([0.0] * 16, False),
        ([-1.0] * 16, False),
        ([1.0] * 15 + [-100.0], False),
        ([1.0] * 40, True),
        ([1.0, -1.0] * 20, False),
    ],
)
def test_what_is_a_real_gain(differences: list[float], is_real: bool) -> None:  # noqa: FBT001
    """One case, few that differ, or a few large ones are no gain; the same small one on every case is."""
    assert of(*differences).is_real is is_real


def test_cases_cancel_out() -> None:
    """A gain that is small beside how cases differ is seen, as both played the same ones."""
    cases = np.linspace(-1000, 1000, 16)
    found = gain(cases, cases + np.tile([0.5, 1.5], 8))

    assert found is not None
    assert found.is_real


@pytest.mark.parametrize("odd", [float("nan"), float("inf")])
def test_what_is_no_number_has_no_gain(odd: float) -> None:
    """A return that is no number leaves the gain unknown."""
    assert gain([0.0, 1.0], [odd, 2.0]) is None


@pytest.mark.parametrize("cases", [8, 16, 24])
def test_noise_is_seldom_a_gain(cases: int) -> None:
    """Of differences that are noise alone, skewed or not, about 5 % are taken for gains, and no more."""
    random = np.random.default_rng(0)
    draws = np.concatenate([random.normal(size=(150, cases)), random.standard_t(2, size=(150, cases))])

    assert sum(of(*one).is_real for one in draws) / len(draws) <= 0.085


@pytest.mark.parametrize(("cases", "ruined"), [(16, 0.2), (32, 0.1), (32, 0.2)])
def test_what_ruins_some_cases_is_seldom_a_gain(cases: int, ruined: float) -> None:
    """An edit that helps a little on most cases and ruins the others, for no gain on average, is seldom a real one."""
    random = np.random.default_rng(1)
    draws = np.where(random.random((300, cases)) < ruined, 1 - 1 / ruined, 1.0) + 0.3 * random.normal(size=(300, cases))

    assert sum(of(*differences).is_real for differences in draws) / len(draws) <= 0.075
