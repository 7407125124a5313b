"""The learning curve of runs whose numbers are worked out by hand."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnosed import ACROBOT, FROM_NOTHING, known_run, recorded, submitted, unwritten
from evopolicygym.analysis.diagnostics import learning_curve
from evopolicygym.analysis.run_scores import submission_history
from evopolicygym.core.event import RunClosed
from evopolicygym.core.run import fold
from evopolicygym.core.task import Anchor, BudgetRule, Task
from evopolicygym.records.reader import RunRecord
from fakes import TIME, opening, validated

pytestmark = pytest.mark.made_up

ROUNDING = 1e-12
SCALE = {"reference_anchor": Anchor(10.0, 0.0, 256)}
"""What makes 10 the best known score; uniform random scores 0."""


@pytest.fixture
def record(tmp_path: Path) -> RunRecord:
    """Return the run of ``diagnosed.py``."""
    return recorded(tmp_path / "run", known_run())


def climbing(*means: float, episodes: int = 2, budget: int | None = None, **changes: object) -> RunRecord:
    """Return a run whose submissions have these validation means."""
    rule = BudgetRule(budget or episodes * len(means))
    task = Task(replace(FROM_NOTHING, **changes), rule, validation_cases=1, train_cases=16)
    submissions = (
        event
        for index, value in enumerate(means)
        for event in submitted(index, range(episodes), [value] * episodes, f"c{index}")
    )
    events = [opening(task=task), *submissions]
    validation = [one for index, value in enumerate(means) for one in validated(f"c{index}", [value])]
    return unwritten([*events, RunClosed(TIME, fold(events).close_reason), *validation])


def by_case(returns: list[list[float]], episodes: int, budget: int) -> RunRecord:
    """Return a run whose submissions have these validation returns."""
    task = Task(FROM_NOTHING, BudgetRule(budget), validation_cases=len(returns[0]), train_cases=16)
    events = [opening(task=task)]
    for index in range(len(returns)):
        events += submitted(index, range(episodes), [0.0] * episodes, f"c{index}")
    validation = [one for index, values in enumerate(returns) for one in validated(f"c{index}", values)]
    return unwritten([*events, RunClosed(TIME, fold(events).close_reason), *validation])


def test_the_learning_curve(record: RunRecord) -> None:
    """The curve rises when a better submission's episodes are spent, and its area is that of its steps."""
    curve = learning_curve.measure(record)

    assert [(one.spent, one.best) for one in curve.points] == [(2, 2.0), (4, 2.0), (5, 2.0), (8, 6.0), (10, 6.0)]
    assert [one.validation_mean for one in curve.points] == [2.0, 1.0, None, 6.0, 2.0]
    assert (curve.baseline, curve.final) == (0.0, 6.0)
    assert curve.area is curve.final_height is curve.largest_jump is None  # the toy has no best known score
    assert curve.episodes_to == {"50%": None, "80%": None, "95%": None}


def test_episodes_to_a_share_of_the_improvement() -> None:
    """A height is reached by the first submission that is so good, on the known scale."""
    curve = learning_curve.measure(climbing(5.0, 8.0, 4.0, 9.6, 10.0, **SCALE))

    assert curve.episodes_to == {"50%": 2, "80%": 4, "95%": 8}


def test_a_run_that_stops_low_has_a_low_area() -> None:
    """Of two runs that are as quick, one that stops at a third of the other's height has a third of its area."""
    low, high = (learning_curve.measure(climbing(3 * to, 3 * to, 3 * to, **SCALE)) for to in (1.0, 3.0))

    assert (low.final, low.final_height, high.final_height) == (3.0, 0.3, 0.9)
    assert low.area == pytest.approx(0.3 * 2 / 3)
    assert high.area == pytest.approx(0.9 * 2 / 3)
    assert (low.episodes_to["50%"], high.episodes_to["50%"]) == (None, 2)


def test_the_largest_jump_and_the_plateau() -> None:
    """The largest rise is a share of the scale; a plateau begins with the last gain that is beyond noise."""
    curve = learning_curve.measure(climbing(1.0, 8.0, 9.0, **SCALE))
    rises = [[1.0] * 8, [9.0 + case for case in range(8)], [9.1 + case for case in range(8)], [99.0] + [9.0] * 7]
    flat = learning_curve.measure(by_case(rises, episodes=2, budget=12))

    assert (curve.largest_jump, curve.largest_jump_at) == (pytest.approx(0.7), 4)
    assert (flat.last_gain_at, flat.plateau) == (6, 2)


def test_without_an_anchor_the_curve_begins_at_its_first_candidate() -> None:
    """Where uniform random is not known, improvement is measured from the first candidate."""
    curve = learning_curve.measure(climbing(2.0, 3.0, 4.0, random_anchor=None))

    assert (curve.baseline, curve.final, curve.area) == (2.0, 4.0, None)


def test_the_area_up_to_the_best_known() -> None:
    """Heights are on the environment's known scale, of the same game only."""
    spare = climbing(-292.34375, budget=8, **ACROBOT)
    shorter = climbing(-292.34375, budget=8, **ACROBOT | {"max_steps": 100, "reference_anchor": None})

    assert learning_curve.measure(spare).area == pytest.approx(
        0.75 * (-292.34375 + 499.16) / (499.16 - 59.55), abs=0.01
    )
    assert learning_curve.measure(shorter).area is None


def test_a_run_that_never_beats_random_has_no_area() -> None:
    """Nothing is improved where the best is no better than random."""
    curve = learning_curve.measure(climbing(-1.0, -2.0, **SCALE))

    assert (curve.area, curve.final_height, curve.largest_jump) == (0.0, 0.0, 0.0)
    assert set(curve.episodes_to.values()) == {None}


MEANS = st.lists(
    st.floats(-1e6, 1e6) | st.sampled_from([float("nan"), float("inf"), float("-inf"), 0.0]), min_size=1, max_size=12
)


@settings(deadline=None, max_examples=30)
@given(MEANS, st.integers(0, 20), st.booleans())
def test_the_curve_never_falls(means: list[float], spare: int, anchored: bool) -> None:  # noqa: FBT001 - hypothesis
    """The best so far never falls, areas lie in [0, 1], and a greater share is never reached sooner."""
    changes = {} if anchored else {"random_anchor": None}
    record = climbing(*means, budget=2 * len(means) + spare, **changes)
    curve = learning_curve.measure(record)
    bests = [one.best for one in curve.points if one.best is not None]
    reached = [value for value in curve.episodes_to.values() if value is not None]

    assert bests == sorted(bests)
    assert curve.area is None or 0 <= curve.area <= 1 + ROUNDING
    assert reached == sorted(reached)
    assert len(reached) in {0, 3}
    news = [one.is_new_best for one in submission_history(record.state)]
    assert sum(new is True for new in news) == len(set(bests))
