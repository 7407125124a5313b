"""Intervals: they agree with scipy where it has them, and cover what they say on runs whose truth is known."""

import numpy as np
import pytest
from scipy import stats

from evopolicygym.analysis.ranking.bootstrap import (
    Block,
    Floats,
    Resampler,
    Sample,
    bootstrap_interval,
    rate_interval,
    share_interval,
    t_quantile,
)


def synthetic(
    random: np.random.Generator, runs: int, cases: int = 32, deviations: tuple[float, float, float] = (1, 1, 1)
) -> Floats:
    """Return returns of mean 0 with effects of runs, of cases, and of each run on each case."""
    of_runs, of_cases, rest = deviations
    effects = random.normal(size=(runs, 1)) * of_runs + random.normal(size=cases) * of_cases
    return effects + random.normal(size=(runs, cases)) * rest


def coverage(runs: int, deviations: tuple[float, float, float], trials: int) -> float:
    """Return how often the interval holds the truth."""
    random = np.random.default_rng(runs)
    intervals = [Sample((Block("cases", synthetic(random, runs, 32, deviations)),)).interval() for _ in range(trials)]
    return float(np.mean([found is not None and found.low <= 0 <= found.high for found in intervals]))


@pytest.mark.parametrize("freedom", [1, 2, 3.7, 4, 31, 255, 1e9])
def test_student_is_scipys(freedom: float) -> None:
    """The quantile is Student's."""
    assert t_quantile(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), rel=1e-4)


def test_one_repeat_is_the_textbooks() -> None:
    """With one run, standard error and interval are those of its cases."""
    returns = np.random.default_rng(0).normal(5, 2, (1, 32))
    found = Sample((Block("cases", returns),))
    expected = stats.t.interval(0.95, 31, returns.mean(), stats.sem(returns[0]))

    interval = found.interval()
    assert interval
    assert found.standard_error == pytest.approx(stats.sem(returns[0]))
    assert (interval.low, interval.high) == pytest.approx(expected, rel=1e-4)


def test_replicates_are_a_bootstrap() -> None:
    """With one run, percentiles of replicates are scipy's, but for its factor sqrt(32 / 31) and chance."""
    returns = np.random.default_rng(1).exponential(size=32)
    sample = Sample((Block("cases", returns[None, :]),))
    replicates = Resampler(20_000, seed=3).means(sample)
    theirs = stats.bootstrap((returns,), np.mean, n_resamples=20_000, method="percentile", rng=4).confidence_interval
    ours = np.quantile(replicates, [0.025, 0.975])

    assert tuple(ours) == pytest.approx((theirs.low, theirs.high), abs=0.03)


@pytest.mark.parametrize("runs", [2, 3, 10])
def test_replicates_vary_as_the_mean_does(runs: int) -> None:
    """The variance of replicates is the mean's unbiased variance, at any number of runs."""
    random = np.random.default_rng(runs)
    samples = [Sample((Block("cases", synthetic(random, runs)),)) for _ in range(300)]
    drawn = np.mean([Resampler(200, seed).means(sample).var() for seed, sample in enumerate(samples)])
    truth = 1 / runs + 1 / 32 + 1 / (32 * runs)

    assert drawn == pytest.approx(truth, rel=0.2)
    assert np.mean([sample.standard_error**2 for sample in samples]) == pytest.approx(truth, rel=0.2)


def test_what_runs_do_on_cases_is_counted_once() -> None:
    """Where neither runs nor cases matter, the variance of a mean is that of its cells, and not twice that."""
    random = np.random.default_rng(0)
    found = [Sample((Block("cases", synthetic(random, 5, 32, (0, 0, 1))),)).standard_error ** 2 for _ in range(300)]

    assert np.mean(found) == pytest.approx(1 / (5 * 32), rel=0.35)


@pytest.mark.parametrize(("runs", "deviations"), [(1, (0, 1, 1)), (3, (1, 1, 1)), (5, (1, 0.3, 1)), (10, (0, 1, 1))])
def test_intervals_cover_quickly(runs: int, deviations: tuple[float, float, float]) -> None:
    """A nominal 95 % covers about that; with one run, what that run would do on other cases."""
    assert 0.90 <= coverage(runs, deviations, 400) <= 0.985


@pytest.mark.nightly
@pytest.mark.parametrize(("runs", "most"), [(2, 0.985), (3, 0.975), (4, 0.97), (5, 0.97), (10, 0.97)])
@pytest.mark.parametrize("deviations", [(1, 1, 1), (0, 1, 1), (1, 0.1, 0.1), (0.3, 2, 1), (0.2, 0.2, 1)])
def test_intervals_cover(runs: int, most: float, deviations: tuple[float, float, float]) -> None:
    """A nominal 95 % covers 93 to 97 %; at two repeats up to 98, as what runs vary by is known from two numbers."""
    assert 0.93 <= coverage(runs, deviations, 4000) <= most


def test_one_repeat_covers_cases_only() -> None:
    """What another run would do is not in the interval of a single one, and can't be."""
    assert coverage(1, (1, 0.3, 0.3), 300) < 0.3


def test_entries_on_the_same_cases_share_their_draws() -> None:
    """Two entries that differ by a constant on every case differ by it in every replicate."""
    returns = np.random.default_rng(0).normal(size=(1, 32))
    resampler = Resampler(100)
    one, other = (resampler.means(Sample((Block("same", returns + add),))) for add in (0, 5))
    apart = resampler.means(Sample((Block("others", returns + 5),)))

    assert np.ptp(other - one) < 1e-9
    assert np.ptp(apart - one) > 0.1


def test_replicates_are_seeded() -> None:
    """The same seed gives the same intervals."""
    sample = Sample((Block("cases", np.random.default_rng(0).normal(size=(3, 8))),))

    assert np.array_equal(Resampler(50, 1).means(sample), Resampler(50, 1).means(sample))


def test_an_interval_holds_its_value_within_bounds() -> None:
    """A stretched interval never loses the value, nor leaves what can be."""
    found = bootstrap_interval(1.0, np.linspace(0.6, 0.9, 100), 3.0, (0.0, 1.0))

    assert (found.high, 0 < found.low < 0.6) == (1.0, True)


@pytest.mark.parametrize("returns", [[[1.0]], [[1.0, 1.0]], [[0.0], [2.0]], [[np.nan, 1.0]], [[np.inf, 1.0]]])
def test_little_or_odd_data_raises_nothing(returns: list[list[float]]) -> None:
    """One case, no variance or no number: no interval, or one all the same, perhaps of no numbers."""
    sample = Sample((Block("cases", np.array(returns)),))
    found = sample.interval()
    Resampler(10).means(sample)

    assert found is None or not found.low > found.high


@pytest.mark.parametrize("count", [1, 2, 3, 5, 16, 80])
def test_the_interval_of_a_share_never_covers_too_little(count: int) -> None:
    """Whatever the true share of wins is, at least 95 % of intervals hold it; none is without a width."""
    intervals = [share_interval(wins / count, count) for wins in range(count + 1)]
    for true in np.linspace(0.001, 0.999, 97):
        weights = stats.binom.pmf(range(count + 1), count, true)
        held = [one.low <= true <= one.high for one in intervals]
        assert weights[held].sum() >= 0.95
    assert all(one.low < one.high for one in intervals)


@pytest.mark.parametrize(("rate", "count", "freedom"), [(0.25, 40, 39.0), (0.02, 70.5, 3.0), (1.0, 12, 11.0)])
def test_the_interval_of_a_rate_is_clopper_and_pearson_s(rate: float, count: float, freedom: float) -> None:
    """With as many trials as would give its variance, fewer where the variance itself is known from few."""
    trials = count * (stats.norm.isf(0.025) / stats.t.isf(0.025, freedom)) ** 2 if rate < 1 else count
    hits = rate * trials
    low, high = stats.beta.ppf(0.025, hits, trials - hits + 1), stats.beta.ppf(0.975, hits + 1, trials - hits)
    found = rate_interval(rate, rate * (1 - rate) / count, freedom, cases=12)
    unknown = rate_interval(rate, 0.0, freedom, cases=12)

    assert (found.low, found.high) == pytest.approx((low, high if rate < 1 else 1.0), rel=2e-3)
    assert unknown == share_interval(rate, 12)


@pytest.mark.parametrize("size", [1e80, 1e308])
def test_huge_returns_raise_nothing(size: float) -> None:
    """The square of a variance may overflow; where the variance does, the uncertainty counts as unknown."""
    sample = Sample((Block("cases", size * np.array([[1.0, -1.0, 0.5], [0.2, -0.9, 0.1]])),))

    assert sample.is_estimable == (size < 1e154)
    assert not sample.is_estimable or 1 <= sample.freedom <= 3
