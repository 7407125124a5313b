"""What agents do, by examples that were labelled by hand: what is found, what is missed, what is harmless."""

from pathlib import Path

import pytest

from labelled_conduct import HALVES, KINDS, audited, labelled_conduct, tallied

BOUNDS = {
    "development": dict.fromkeys(KINDS, (1.0, 1.0)),
    "test": {
        "own_simulator": (0.95, 0.7),
        "search": (0.95, 0.7),
        "install": (0.95, 0.7),
        "network": (0.95, 0.8),
        "case_answers": (0.95, 0.9),
    },
}
"""The least precision and recall of each kind. Those that docs/measure/audit.md shows are no lower."""

PLANNING = {"planning within the policy", "model predictive control in the policy", "a search on the map that is seen"}


@pytest.mark.parametrize("half", HALVES)
def test_what_a_person_expects_is_found(half: str, tmp_path: Path) -> None:
    """Precision and recall of each kind of finding are no lower than the page says."""
    tallies, wrong = tallied(tmp_path, labelled_conduct(half))
    low = {
        kind: (tallies[kind].precision, tallies[kind].recall)
        for kind, (precision, recall) in BOUNDS[half].items()
        if tallies[kind].precision < precision or tallies[kind].recall < recall
    }

    assert low == {}, wrong


def test_the_examples_cover_what_there_is() -> None:
    """There are at least sixty, each under a name of its own, of each kind and harmless ones in both halves."""
    halves = {half: labelled_conduct(half) for half in HALVES}
    every = [one for examples in halves.values() for one in examples]

    assert len({one.name for one in every}) == len(every) >= 60
    for examples in halves.values():
        assert set().union(*(one.expect for one in examples)) == set(KINDS)
        assert sum(not one.expect for one in examples) >= 15


def test_planning_in_the_policy_is_its_own_thinking(tmp_path: Path) -> None:
    """A policy that steps known physics while the judge plays it has no finding at all."""
    every = [one for half in HALVES for one in labelled_conduct(half)]
    planning = [one for one in every if one.name in PLANNING]
    found = [list(audited(tmp_path / str(number), one).findings) for number, one in enumerate(planning)]

    assert found == [[]] * len(PLANNING)
