"""Laws of the decision: its distributions are those of the books, its p-values those of its intervals."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from scipy import stats

from evopolicygym.analysis.ranking import bootstrap
from evopolicygym.analysis.ranking.decision import (
    Decision,
    decide,
    decide_jointly,
    decide_samples,
    deviate,
    half_width_at,
    half_widths,
    holm,
    least_joint_p,
    p_value,
    separation_chance,
    two_sided,
)
from evopolicygym.analysis.ranking.known_scale import exceeds
from evopolicygym.analysis.ranking.pairing import improvement, improvement_interval

P = [0.9, 0.5, 0.05, 1e-3, 1e-6]


@pytest.mark.parametrize("freedom", [1.0, 2.5, 7.0, 31.0, 1e5])
def test_quantiles_are_student_s(freedom: float) -> None:
    """The interval of one variance is Student's at every level, and its p-value at its own end is that level."""
    table = half_widths([4.0], [freedom])
    expected = [2 * stats.t.isf(p / 2, freedom) for p in P]

    assert [half_width_at(p, table) for p in P] == pytest.approx(expected, rel=2e-3)
    assert [p_value(-half_width_at(p, table), table) for p in P] == pytest.approx(P, rel=0.02)


def test_two_variances_are_midway_between_two_constructions() -> None:
    """Student's at Satterthwaite's degrees of freedom, and Banerjee's; a part that has no freedom adds no variance."""
    parts, level = [(4.0, 3.0), (1.0, 9.0)], 0.05
    joint = 25.0 / (16 / 3 + 1 / 9)
    squares = [variance * stats.t.isf(level / 2, freedom) ** 2 for variance, freedom in parts]
    expected = (stats.t.isf(level / 2, joint) * math.sqrt(5) + math.sqrt(sum(squares))) / 2
    found = decide(1.5, [parts[0], (0.0, 5.0)], parts[1], (4, 4))
    assert found.interval

    assert bootstrap.joint_freedom([4.0, 1.0], [3.0, 9.0]) == pytest.approx(joint)
    assert bootstrap.joint_freedom([4.0, 1.0], [3.0, 0.0]) == pytest.approx(25 * 3 / 16)
    assert (found.interval.low, found.interval.high) == pytest.approx((1.5 - expected, 1.5 + expected), rel=2e-3)
    assert found.evidence == pytest.approx(stats.norm.isf((found.p or 0) / 2), rel=1e-3)
    assert decide(-1.5, [parts[0]], parts[1], (4, 4)).evidence == pytest.approx(-found.evidence)
    assert decide(1.5, [], parts[1], (4, 4)).p is decide(1.5, [parts[0]], parts[1], (1, 4)).p is None
    assert decide(0.0, [parts[0]], parts[1], (4, 4)).p == 1.0
    assert decide(1e6, [parts[0]], (0.0, 0.0), (2, 2)).p == pytest.approx(0.125)
    assert decide(1.5, [], (0.0, 3.0), (2, 2)).interval is None


@pytest.mark.parametrize("repeats", [(2, 2), (3, 3), (5, 5), (2, 7), (1, 1), (2, 3, 4)])
def test_the_least_chance_is_that_of_runs_that_solve_or_don_t(repeats: tuple[int, ...]) -> None:
    """It is the largest chance that each agent's runs end alike and not all agents' do."""
    outcomes = [each for each in product((0, 1), repeat=len(repeats)) if len(set(each)) > 1]

    def chance(share: float) -> float:
        ways = [[share if solved else 1 - share for solved in each] for each in outcomes]
        return sum(math.prod(one**count for one, count in zip(way, repeats, strict=True)) for way in ways)

    assert separation_chance(*repeats) == pytest.approx(max(map(chance, np.linspace(0, 1, 1001))), rel=1e-3)


@settings(max_examples=50)
@given(some.lists(some.none() | some.floats(0.0, 1.0), max_size=6))
def test_holm_adjusts_a_family(p_values: list[float | None]) -> None:
    """Each is as many times itself as there are no smaller ones, and never below that of a smaller one; None stays."""
    known = [p for p in p_values if p is not None]
    single = {p: min(1.0, p * sum(other >= p for other in known)) for p in known}
    expected = [None if p is None else max(single[other] for other in known if other <= p) for p in p_values]

    assert holm(p_values) == pytest.approx(expected)


def test_tasks_count_alike_together() -> None:
    """Evidence of tasks is the sum of their deviates over the root of their number; one task keeps its p-value."""
    tasks = [Decision(1.0, None, p, sign * deviate(p)) for p, sign in ((0.01, 1), (0.2, -1), (0.05, 1))]
    unknown = Decision(1.0, None, None, 0.0)
    evidence = sum(task.evidence for task in tasks) / 2

    assert decide_jointly([*tasks, unknown]).evidence == pytest.approx(evidence)
    assert decide_jointly([*tasks, unknown]).p == pytest.approx(2 * stats.norm.sf(abs(evidence)))
    assert decide_jointly(tasks[:1]).p == pytest.approx(0.01)
    assert decide_jointly([unknown]).p is None
    assert [two_sided(deviate(p)) for p in P] == pytest.approx(P)
    assert least_joint_p([(2, 2)]) == pytest.approx(0.125)
    assert least_joint_p([(2, 2)] * 4) == pytest.approx(two_sided(2 * deviate(0.125)))


def test_cases_that_both_played_cancel_out() -> None:
    """What a case adds to both agents' returns is no part of their difference; where cases differ, it is."""
    random = np.random.default_rng(0)
    cases, runs = random.normal(0, 50, 8), random.normal(0, 1, (2, 4, 1))
    first, other = ((bootstrap.Block("same", table + cases + random.normal(0, 0.1, (4, 8)))) for table in runs)
    elsewhere = bootstrap.Block("others", other.returns)
    paired = decide_samples(bootstrap.Sample((first,)), bootstrap.Sample((other,)))
    alone = decide_samples(bootstrap.Sample((first,)), bootstrap.Sample((elsewhere,)))
    assert paired.interval
    assert alone.interval
    spread = math.sqrt(2 * cases.var(ddof=1) / 8)

    assert paired.difference == pytest.approx(alone.difference)
    assert paired.interval.high - paired.interval.low < 6
    assert alone.interval.high - alone.interval.low == pytest.approx(2 * spread * stats.t.isf(0.025, 7), rel=0.1)


@pytest.mark.parametrize(
    ("repeats", "trials"),
    [
        ([(1, 1)], 1.0),
        ([(5, 5)], 25 / (1 + 8 / 3)),
        ([(2, 6)], 12 / 3),
        ([(5, 0)], 5.0),
        ([(0, 7)], 7.0),
        ([(5, 0), (0, 0)], 20.0),
        ([(5, 5)] * 3, 75 / (1 + 8 / 3)),
    ],
)
def test_a_share_of_pairs_is_as_certain_as_so_many_trials(repeats: list[tuple[int, int]], trials: float) -> None:
    """Of m and n repeats, m n / (1 + 2/3 (N - 1)) with their mean N; of tasks so many times as many."""
    found, expected = improvement_interval(0.7, repeats), bootstrap.share_interval(0.7, trials)
    assert found

    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert improvement_interval(0.7, [(0, 0)]) is None


@settings(max_examples=30)
@given(*[some.lists(some.integers(0, 3), min_size=1, max_size=4)] * 2)
def test_of_all_pairs_each_is_won_once(first: list[int], other: list[int]) -> None:
    """The share of pairs in which one agent is better, and that of the other, are 1 together: ties count half."""
    found, against = (improvement(np.array(a, float), np.array(b, float)) for a, b in ((first, other), (other, first)))

    assert found + against == pytest.approx(1.0)
    assert found == pytest.approx(np.mean([(a > b) + (a == b) / 2 for a, b in product(first, other)]))


@pytest.mark.parametrize(
    ("best", "low", "more"),
    [
        ((2.0, 1.0), (0.0, None), True),
        ((1.9, 1.0), (0.0, None), False),
        ((2.0, None), (0.0, 1.0), True),
        ((1.9, None), (0.0, 1.0), False),
        ((2.7, 1.0), (0.0, 1.0), False),
        ((3.0, 1.0), (0.2, 1.0), True),
        ((1.0, None), (1.0, None), False),
    ],
)
def test_a_score_exceeds_another_by_more_than_noise(
    best: tuple[float, float | None],
    low: tuple[float, float | None],
    more: bool,  # noqa: FBT001 - a table's column
) -> None:
    """By more than 1.96 standard errors of the difference, which both errors are part of."""
    assert exceeds(best, low) is more
