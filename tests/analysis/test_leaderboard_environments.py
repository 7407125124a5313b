"""An own spec under a shipped table's name: it stands beside the table only where both have the same environment."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evopolicygym.analysis.published.score_tables import paper, shipped, shipped_names
from evopolicygym.analysis.ranking.score_table import ScoreTable, score_table
from evopolicygym.analysis.results import load_results
from evopolicygym.analysis.run_scores import compare, scale_of
from evopolicygym.core.run import fold
from evopolicygym.core.task import EnvironmentSpec, Task
from evopolicygym.specs import catalog
from evopolicygym.specs.identity import EnvironmentIdentity, environment_identity
from fakes import opening, whole_run
from records_of_runs import changed, real_document, write

pytestmark = pytest.mark.made_up

ACROBOT = catalog.load("acrobot")
OTHERS: Mapping[str, Mapping[str, Any]] = {
    "shorter": {"max_steps": 100},
    "another id": {"id": "MountainCar-v0"},
    "other arguments": {"arguments": {"wind": True}},
    "another success": {"success": {"rule": "positive_return", "key": "", "meaning": ""}},
}


def beside_the_paper(below: Path, **changes: Any) -> ScoreTable:
    """Return the paper's table with a run on acrobot and one on reacher, whose spec is changed."""
    document = real_document(below / "real")
    write(below / "runs", changed(document, "reacher", "mine", [-4.0, -5.0]))
    other = changed(document, "acrobot", "mine", [-10.0, -12.0])
    other["task"]["environment"] |= changes
    write(below / "runs", other)
    return score_table(load_results([below / "runs"]).runs, [paper()])


@pytest.mark.parametrize("name", shipped_names())
def test_a_shipped_table_is_of_the_specs_games(name: str) -> None:
    """So are all tables, those of runs too."""
    for task, of in shipped(name).tasks.items():
        assert of.environment == environment_identity(catalog.load(task))


def test_the_same_game_stands_beside_the_paper(tmp_path: Path) -> None:
    """A run of the catalog's spec is compared, whatever fields say that no score depends on."""
    table = beside_the_paper(tmp_path, extra="another")

    assert set(table.entry("mine").cells) == {"acrobot", "reacher"}
    assert not any("another environment" in note for note in table.notes)


@pytest.mark.parametrize("changes", OTHERS.values(), ids=OTHERS)
def test_another_game_under_the_name_is_left_out(tmp_path: Path, changes: Mapping[str, Any]) -> None:
    """Its runs don't stand beside the paper's, its anchor is not the table's, and a note says why."""
    random = {"mean": 0.0, "standard_error": 0.0, "episodes": 1}
    table = beside_the_paper(tmp_path, **changes, random_anchor=random, idle_anchor=random)
    (note,) = (one for one in table.notes if "another environment" in one)
    anchor = table.anchor

    assert set(table.entry("mine").cells) == {"reacher"}
    assert anchor is not None
    assert anchor.cells["acrobot"].mean == paper().scores("acrobot")["Uniform random"]
    assert next(task.idle for task in table.tasks if task.name == "acrobot") is None
    assert [
        word for word in ("2607.02440", "acrobot", "Acrobot-v1", "500 steps", "terminated") if word not in note
    ] == []


def test_success_that_is_not_told_differs_from_none() -> None:
    """A spec that says nothing of success has the same returns."""
    told = EnvironmentIdentity("Acrobot-v1", 500, success="terminated")

    assert told.is_same(replace(told, success=""))
    assert not told.is_same(replace(told, success="positive_return"))


@pytest.mark.parametrize(
    ("spec", "shown"),
    [(ACROBOT, True), (replace(ACROBOT, max_steps=100), False), (replace(ACROBOT, id="MountainCar-v0"), False)],
)
def test_a_runs_comparison_shows_the_paper_for_its_own_games_only(spec: EnvironmentSpec, shown: bool) -> None:  # noqa: FBT001
    """What ``run`` prints at its end has none of the paper beside another environment, nor a scale up to its best."""
    events = [opening(task=replace(_task_of_the_whole_run(), environment=spec)), *whole_run()[1:]]
    rows = compare(fold(events))

    assert any(row.origin == paper().source for row in rows) is shown
    assert (scale_of(spec) is not None) is shown


def _task_of_the_whole_run() -> Task:
    return fold(whole_run()).opened.task
