"""Packs that exclude one another play in one suite, and change nothing of Core16."""

from pathlib import Path

import pytest

from benchmark_module import load
from installed_packs import installed_packs

pytestmark = pytest.mark.nightly

side_by_side = load("packs_side_by_side")


def test_packs_that_exclude_one_another_play_in_one_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three versions of MuJoCo play in one suite, each repeats bit for bit; a recorded trajectory stays as it is."""
    installed_packs(monkeypatch, *side_by_side.PACKS)
    before = side_by_side.played_again(["reacher"])["reacher"]
    runs = {run.task: run for run in side_by_side.suite_played(tmp_path)}
    after = side_by_side.played_again(["reacher"])["reacher"]

    assert [before.same, after.same] == [True, True]
    assert {run.pack: run.repeats for run in runs.values()} == {"": True, "metaworld": True, "dm_control": True}
    assert runs["Meta-World-reach-v3"].simulator == "3.3.0"
    assert runs["dm_control-reacher-easy-v0"].simulator == "3.10.0"
    assert runs["reacher"].simulator not in {"3.3.0", "3.10.0"}


def test_every_environment_of_core16_has_a_recorded_trajectory() -> None:
    """The benchmark plays a record of each of the sixteen."""
    assert len(side_by_side.recorded()) == 16
