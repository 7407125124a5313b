"""Real evolutions whose edits were once miscalled: each is classified, and counted, as what it was."""

from pathlib import Path

import pytest

from evolutions import EVOLUTION, SMALL, evolved
from evopolicygym.analysis.diagnostics import edits
from evopolicygym.analysis.diagnostics.edits import Edits, Hits
from evopolicygym.core.submission import STARTER
from evopolicygym.records.rows import Edit
from whole_runs import state_kept_in


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Edits:
    """Return what is found in the long evolution."""
    directory = tmp_path_factory.mktemp("evolution")
    with state_kept_in(directory / "state"):
        return edits.measure(evolved(directory / "runs", EVOLUTION))


@pytest.fixture(scope="module")
def by_name(found: Edits) -> dict[str, Edit]:
    """Return its submissions by their names."""
    return dict(zip([name for name, _ in EVOLUTION], found.submissions, strict=True))


def test_every_edit_is_what_it_was(by_name: dict[str, Edit]) -> None:
    """Each submission has the kind that its script gave it, against the parent that it was made of."""
    assert {name: (one.parent, one.edit_kind) for name, one in by_name.items()} == {
        "idle": (STARTER, "structural"),
        "leaning": (0, "structural"),
        "falling": (1, "structural"),
        "at the edge": (2, "structural"),
        "two constants": (2, "parametric"),
        "unclosed": (4, "structural"),
        "closed": (4, "repair"),
        "back": (4, "revert"),
        "renamed": (7, "cosmetic"),
        "mixed": (6, "structural"),
        "mixed again": (9, "none"),
    }


def test_every_edit_counts_as_what_it_was(found: Edits, by_name: dict[str, Edit]) -> None:
    """Real gains are hits, what mends counts for the edit that it mends, and what goes back or mixes isn't counted."""
    assert {name: one.is_hit for name, one in by_name.items()} == {
        "idle": None,
        "leaning": True,
        "falling": True,
        "at the edge": False,
        "two constants": True,
        "unclosed": True,
        "closed": None,
        "back": None,
        "renamed": None,
        "mixed": None,
        "mixed again": None,
    }
    assert found.hits == {"structural": Hits(4, 3), "parametric": Hits(1, 1)}
    assert found.aside == {"cosmetic": 1, "revert": 1, "repair": 1, "none": 1}
    assert found.mixtures == 1


def test_an_edit_is_worth_what_its_repair_is(by_name: dict[str, Edit]) -> None:
    """The missing parenthesis and its repair are one edit, whose gain is the repaired policy's."""
    broken, repaired = by_name["unclosed"], by_name["closed"]

    assert (broken.mended_by, broken.validation_mean) == (6, None)
    assert broken.paired_gain == repaired.paired_gain
    assert broken.paired_gain == pytest.approx(15, abs=3)


def test_a_mixture_is_seen(by_name: dict[str, Edit]) -> None:
    """Two policies told by the episode's number are no edit of which it is asked whether it paid."""
    assert by_name["mixed"].acts_by_episode
    assert by_name["mixed"].validation_mean < by_name["closed"].validation_mean


def test_the_papers_rule_beside(found: Edits) -> None:
    """The paper's plain rule calls returns and repairs structural edits, as it always did."""
    assert [one.edit for one in found.paper] == [
        None, "structural", "structural", "structural", "structural", "structural", "structural", "structural",
        "structural", "structural", "none",
    ]  # fmt: skip
    assert found.paper_hits["structural"] == Hits(9, 4)


def test_two_steps_over_sixteen_cases_are_no_hit(tmp_path: Path) -> None:
    """A gain that two steps of one case made sets a new best by the paper's rule, and none beyond noise."""
    found = edits.measure(evolved(tmp_path / "runs", SMALL))
    small = found.submissions[1]

    assert small.paired_gain is not None
    assert small.paired_cases is not None
    assert small.paired_gain * small.paired_cases == pytest.approx(2)
    assert (found.paper[1].is_hit, small.is_hit) == (True, False)
