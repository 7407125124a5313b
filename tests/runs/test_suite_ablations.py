"""The suites that ship with a knob crossed, and one that is really played."""

from pathlib import Path

import pytest

import evopolicygym
from evopolicygym.runs.suites import suite as suites
from evopolicygym.runs.suites.suite import plan
from evopolicygym.specs import catalog
from suites import Program
from whole_runs import state_kept_in

CROSSED = {
    "feedback_ablation": ("feedback", ("full", "returns")),
    "text_ablation": ("text", ("full", "terse")),
    "interface_gap": ("interface", ("standard", "permuted", "anonymous")),
    "independent_samples": ("memory", ("full", "none")),
    "budget_ladder": ("budget", (8, 32, 128, 512)),
}


@pytest.mark.parametrize("name", CROSSED)
def test_suites_that_ship(name: str) -> None:
    """Each crosses its knob, on two environments of each family of Core16, with repeats enough for intervals."""
    loaded = suites.load_suite(name, {})
    families = [catalog.load(one).family for one in loaded.environments]

    assert dict(loaded.cross) == dict([CROSSED[name]])
    assert {families.count(family) for family in families} == {2}
    assert len(set(families)) == 4
    assert loaded.repeats == 3
    assert len({str(run) for run in plan(loaded)}) == len(loaded.environments) * len(CROSSED[name][1]) * 3


def test_a_played_suite_has_effects(tmp_path: Path) -> None:
    """A suite that crosses the budget is played, and effects pairs its runs by agent and seed."""
    words = ("--environment", "cartpole", "--cross", "budget=2,32", "--validation", "2", "--held-out", "4")
    program = Program(tmp_path / "runs", (*words, "--split", "public", "--jobs", "2"))
    with state_kept_in(tmp_path / "state"):
        code, runs, complaints = program.played()
    found = evopolicygym.effects(program.directory, in_returns=True).effects

    assert code == 0, complaints
    assert [run["levels"] for run in runs] == [{"budget": 2}, {"budget": 32}]
    assert [(one.knob, one.over, one.level, one.pairs) for one in found.differences] == [("budget", 2, 32, 1)]
    assert found.differences[0].difference.value > 0
    assert found.differences[0].p_adjusted is None
