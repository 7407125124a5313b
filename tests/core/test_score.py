"""Scores: means, the selection of a checkpoint, and the paper's own aggregates from the paper's own table."""

import math
from statistics import fmean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as some

from evopolicygym.analysis.published.score_tables import paper
from evopolicygym.core.score import Candidate, best_so_far, estimate, mean, normalised, rank, rank_scores, select
from evopolicygym.specs import catalog

NAMES = [entry.name for entry in paper().entries]
TASKS = sorted(paper().entries[0].scores)
finite = some.floats(-1e6, 1e6)


def chosen(*means: float) -> int:
    found = select(Candidate(index, mean) for index, mean in enumerate(means))
    assert found is not None
    return found.submit_index


def mean_rank_scores(tasks: list[str]) -> list[float]:
    each = [rank_scores(paper().scores(task)) for task in tasks]
    return [fmean(scores[name] for scores in each) for name in NAMES]


@given(some.lists(finite, min_size=2, max_size=50))
def test_an_estimate_is_mean_and_standard_error(values: list[float]) -> None:
    """The standard error is the sample's deviation over the root of its size."""
    found = estimate(values)

    assert (fmean(values), stdev(values) / math.sqrt(len(values)), len(values)) == pytest.approx(
        (found.mean, found.standard_error, found.count), rel=1e-9, abs=1e-9
    )


def test_the_error_of_a_single_value_is_unknown() -> None:
    """One case has a mean, and no standard error rather than one of 0."""
    assert (estimate([3.0]).mean, estimate([3.0]).standard_error) == (3.0, None)


@pytest.mark.parametrize("values", [[math.inf, 1.0], [math.inf, -math.inf], [1e308, 1e308, 1e308], [1e200, -1e200]])
def test_no_return_is_too_large_to_be_averaged(values: list[float]) -> None:
    """Returns without measure give an infinite estimate or none, and never take the judge down."""
    error = estimate(values).standard_error

    assert error is not None
    assert not math.isfinite(error)


@pytest.mark.parametrize(
    ("means", "expected"),
    [
        ((1.0, 3.0, 2.0), 1),
        ((2.0, 2.0, 1.0), 1),
        ((2.0, 2.0, 2.0), 2),
        ((9100.0 + 1e-11, 9100.0), 0),
        ((9100.0, 9100.0 + 1e-12), 1),
        ((-0.0, 0.0), 1),
        ((0.0, -0.0), 1),
        ((math.nan, -5.0), 1),
        ((-5.0, math.nan), 0),
        ((-math.inf, math.nan), 0),
        ((math.nan, math.nan), 1),
    ],
)
def test_selection(means: tuple[float, ...], expected: int) -> None:
    """The best mean is selected, the latest of equals; what is not a number never wins against a number."""
    assert expected == chosen(*means)


@given(some.lists(finite, min_size=1, max_size=20))
def test_selection_is_by_tuples(means: list[float]) -> None:
    """Selection is the greatest of (mean, index), at any scale."""
    assert max((mean, index) for index, mean in enumerate(means))[1] == chosen(*means)


def test_nothing_to_select() -> None:
    """No candidate, no selection."""
    assert select([]) is None


def test_rank_scores_of_the_paper() -> None:
    """The paper's rank scores come out of the paper's table."""
    assert mean_rank_scores(TASKS) == [0.890625, 0.75, 0.53125, 0.359375, 0.109375]


@pytest.mark.parametrize(("at_most", "expected"), [(1, [9, 5, 1, 1, 0]), (2, [16, 12, 3, 1, 0])])
def test_wins_and_top_two_of_the_paper(at_most: int, expected: list[int]) -> None:
    """Wins are tasks of rank 1, top-2 those of rank 1 or 2."""
    found = [sum(rank(paper().scores(task), name) <= at_most for task in TASKS) for name in NAMES]

    assert expected == found


@pytest.mark.parametrize(
    ("family", "entry", "expected"),
    [
        ("gym_box2d", 0, 0.9375),
        ("mujoco", 0, 0.875),
        ("minigrid", 0, 0.8125),
        ("robotics_driving", 0, 0.9375),
        ("minigrid", 1, 0.9375),
    ],
)
def test_family_means_of_the_paper(family: str, entry: int, expected: float) -> None:
    """A family's score is the plain mean over its tasks, with the families that the specs name."""
    tasks = [task for task in TASKS if catalog.load(task).family == family]

    assert len(tasks) == 4
    assert expected == mean_rank_scores(tasks)[entry]


@pytest.mark.parametrize(("kind", "expected"), [("synthesis", [0.98, 1.00, 0.19, 0.03]), ("tuning", [0.99, 0.67])])
def test_normalised_scores_of_the_paper(kind: str, expected: list[float]) -> None:
    """Normalised means over the tasks of one kind; of the tuning tasks the paper's first and last are known."""
    tasks = [task for task in TASKS if catalog.load(task).kind == kind]
    agents = NAMES[:4] if kind == "synthesis" else [NAMES[0], NAMES[3]]
    found = []
    for name in agents:
        scores = [paper().scores(task) for task in tasks]
        best = [max(value for other, value in one.items() if other != NAMES[4]) for one in scores]
        found.append(fmean(normalised(one[name], one[NAMES[4]], top) for one, top in zip(scores, best, strict=True)))

    assert expected == pytest.approx(found, abs=0.005)


def test_ties_share_the_better_rank() -> None:
    """Of equals, each has the better rank; what is not a number comes last."""
    scores = {"a": 1.0, "b": 1.0, "c": 0.0, "d": math.nan}

    assert [rank(scores, name) for name in scores] == [1, 1, 3, 4]


def test_a_single_entry_scores_one() -> None:
    """Alone, an entry is the best."""
    assert rank_scores({"a": -3.0}) == {"a": 1.0}


@pytest.mark.parametrize(("score", "expected"), [(5.0, 0.5), (-1.0, 0.0), (11.0, 1.0)])
def test_normalised_scores_are_clipped(score: float, expected: float) -> None:
    """0 is as random, 1 is as the best, and nothing lies outside."""
    assert expected == normalised(score, 0.0, 10.0)


def test_nothing_is_gained_where_the_best_is_no_better_than_random() -> None:
    """Where nobody beats random, every normalised score is 0."""
    assert normalised(5.0, 10.0, 10.0) == 0.0


def test_the_mean_is_of_what_is_known() -> None:
    """Values that are not known don't count, and nothing has no mean."""
    assert mean([1.0, None, 2.0]) == 1.5
    assert mean(iter([None, None])) is mean([]) is None
    assert mean([True, False, None]) == 0.5


def test_the_best_so_far_never_falls() -> None:
    """What is unknown or not a number changes nothing, whatever comes before or after it."""
    assert best_so_far([None, math.nan, -math.inf, 1.0, None, 0.5, 2.0]) == [None, None, -math.inf, 1.0, 1.0, 1.0, 2.0]
    assert best_so_far([]) == []
