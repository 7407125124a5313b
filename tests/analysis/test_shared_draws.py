"""Tables that share entries share draws, and nothing comes out otherwise than it did by itself."""

import numpy as np
import pytest

from evopolicygym.analysis.ranking import bootstrap
from evopolicygym.analysis.ranking.bootstrap import Block, Resampler, Sample


def samples() -> list[Sample]:
    """Return entries with one run, with three, and on cases that another has too."""
    random = np.random.default_rng(1)
    shapes = ("a", 1, 32), ("b", 3, 16), ("a", 2, 32), ("c", 1, 8)
    return [Sample((Block(cases, random.normal(size=(runs, count))),)) for cases, runs, count in shapes]


def plain(order: list[Sample]) -> list[list[float]]:
    """Return replicates as a generator yields them that nobody else uses."""
    bootstrap._DRAWS.clear()
    bootstrap._SUMS.clear()
    resampler = Resampler(50)
    return [resampler.means(one).tolist() for one in order]


def test_what_was_drawn_before_changes_nothing() -> None:
    """In any order, with draws shared in part, and once they are forgotten, replicates are the same bits."""
    first, second, third, fourth = samples()
    orders = [[first, second, third, fourth], [first, second, fourth], [second, first], [first, second, third]]
    expected = [plain(order) for order in orders]
    shared = [[resampler.means(one).tolist() for one in order] for order in orders for resampler in [Resampler(50)]]

    assert shared == expected


def test_draws_are_kept_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second table of the same entries draws nothing; what takes too much memory is forgotten."""
    plain(samples())
    drawn = dict(bootstrap._DRAWS)
    resampler = Resampler(50)
    for one in samples():
        resampler.means(one)
    same = list(bootstrap._DRAWS) == list(drawn)
    monkeypatch.setattr(bootstrap, "MOST_KEPT_BYTES", 1)
    plain(samples())

    assert same
    assert len(bootstrap._DRAWS) == 1
