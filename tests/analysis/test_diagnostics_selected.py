"""Which submission is marked as selected where several have one checkpoint, and which episodes its train mean is of."""

from pathlib import Path

import pytest

from diagnosed import closing, recorded, submitted
from evopolicygym.analysis.diagnostics import budget, generalisation
from evopolicygym.core.score import estimate
from evopolicygym.records.reader import RunRecord
from fakes import opening


@pytest.fixture
def record(tmp_path: Path) -> RunRecord:
    """Return a run that submits ``b`` and three times ``a``, which is better; the latest of equals is selected."""
    events = [
        opening(),
        *submitted(0, [0, 0], [3.0, 5.0], "a"),
        *submitted(1, [0], [0.0], "b"),
        *submitted(2, [1, 0], [4.0, 2.0], "a"),
        *submitted(3, [2, 2, 2], [7.0, 6.0, 8.0], "a"),
    ]
    return recorded(tmp_path / "run", closing(events, {"a": [1.0, 1.0], "b": [0.0, 0.0]}, [1.0, 1.0, 1.0]))


def test_one_submission_is_marked_as_selected(record: RunRecord) -> None:
    """It is the one that run.json names, in every diagnostic that names one."""
    assert record.state.selected is not None
    chosen = record.state.selected.submit_index

    assert chosen == 3
    assert [one.submit_index for one in budget.measure(record).submissions if one.is_selected] == [chosen]
    assert [one.submit_index for one in generalisation.measure(record).checkpoints if one.is_selected] == [chosen]
    assert [one.submit_index for one in generalisation.measure(record).checkpoints] == [3, 1]


def test_a_case_that_was_played_several_times_counts_with_each_episode(record: RunRecord) -> None:
    """A policy sees ``episode_index``, so episodes of one case may differ: the train mean is of all of them."""
    selected = generalisation.measure(record).selected

    assert selected is not None
    assert selected.train == estimate([3.0, 5.0, 4.0, 2.0, 7.0, 6.0, 8.0])
