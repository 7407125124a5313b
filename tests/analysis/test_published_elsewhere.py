"""Figures of other protocols: shown apart, with how the protocol differs, and never part of a ranking."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import evopolicygym
from evopolicygym.analysis.published.score_tables import (
    OtherProtocol,
    load_published,
    other_figures,
    other_names,
    shipped,
    shipped_names,
)
from evopolicygym.analysis.results import load_results
from evopolicygym.core.errors import UnknownName, UsageError
from evopolicygym.viewer.documents.suite import task_bundle
from records_of_runs import changed, real_document, write
from shell import Shell
from viewed import viewed

pytestmark = pytest.mark.made_up

PUBLISHED = other_figures("published")
LABELS = {one.label for task in PUBLISHED.tasks for one in task.figures}
APART = "never ranked"


def document(*beside_: str, **options: Any) -> dict[str, Any]:
    """Return a leaderboard's JSON document."""
    return dict(evopolicygym.leaderboard([], beside_, **options).document)


def test_figures_change_nothing_in_a_leaderboard() -> None:
    """Ranks, norms, tiers and notes are the same with the figures beside and without them, to the last digit."""
    alone, with_them = document("paper"), document("paper", "published")
    apart = with_them.pop("published_elsewhere")

    assert alone == with_them
    assert [one["name"] for one in apart[0]["tasks"]] == [task.name for task in PUBLISHED.tasks]


def test_figures_are_no_entries_even_where_they_are_the_best(tmp_path: Path) -> None:
    """A run below a published figure is still the best of its task: its normalised score is 1."""
    returns = [-100.0 + place for place in range(8)]
    write(tmp_path / "runs", changed(real_document(tmp_path / "real"), "half_cheetah", "tuner", returns))
    (task,) = [one for one in PUBLISHED.tasks if one.id == "HalfCheetah-v5"]
    board = evopolicygym.leaderboard(tmp_path / "runs", ["published"]).document
    entries = {one["entry"]: one for one in board["entries"]}

    assert task.best.score > max(returns)
    assert LABELS.isdisjoint(entries)
    assert entries["tuner"]["normalised"]["value"] == 1
    assert entries["tuner"]["rank"] == 1


@pytest.mark.parametrize(
    ("form", "options"),
    [
        ("table", []), ("table", ["--show", "harnesses"]), ("csv", ["--show", "scores"]),
        ("markdown", ["--family", "minigrid"]), ("latex", ["--per-task"]),
    ],
)  # fmt: skip
def test_the_protocol_is_always_said(shell: Shell, form: str, options: list[str]) -> None:
    """Wherever a figure is shown, the table says how its protocol differs, and that it is not ranked."""
    shipped = "published" if form == "csv" else "paper,published"  # CSV is one table
    came = shell("leaderboard", "--tables", shipped, "--format", form, *options)
    notes = came.err if form == "csv" else came.out

    assert came.code == 0
    assert "keycorridor" in came.out
    assert "1 validation (ours 16)" in came.out.replace("\\", "")
    assert APART in notes


def test_json_holds_the_protocol_and_no_place() -> None:
    """For programs, each task has its differences, and no figure has a rank or a norm."""
    (found,) = document("published")["published_elsewhere"]

    assert document("published")["tables"] == []
    assert all(task["protocol_differs"] for task in found["tasks"])
    assert {key for task in found["tasks"] for one in task["figures"] for key in one} == {"entry", "effort", "score"}


def test_a_task_of_ours_has_a_note_of_its_figures() -> None:
    """With each task's table, a note repeats what was published of its environment, and of no other."""
    tables = evopolicygym.leaderboard([], ["paper", "published"]).arranged(per_task=True)
    noted = {table.title.partition(" ")[0] for table in tables for note in table.notes if "another protocol" in note}

    assert noted == {"half_cheetah", "car_racing", "key_corridor"}


def test_the_viewers_page_of_a_task_has_its_figures(tmp_path: Path) -> None:
    """They stand there as a sentence that says whose protocol it was, and in no list of scores."""
    write(tmp_path / "runs", changed(real_document(tmp_path / "real"), "half_cheetah", "tuner", [1.0]))
    (row,) = load_results([tmp_path / "runs"]).runs
    rows = row, replace(row, environment_id="Mine-v0")
    page, other = (task_bundle("half_cheetah", [viewed(row)], {}) for row in rows)

    assert len(page["published_elsewhere"]) == 1
    assert "another protocol (1 validation (ours 16)" in page["published_elsewhere"][0]
    assert LABELS.isdisjoint({one["entry"] for one in page["published"]})
    assert other["published_elsewhere"] == []


def test_a_family_has_the_figures_of_its_tasks() -> None:
    """One family's table has its own tasks' figures, and one without any has no table of figures."""
    minigrid = document("paper", "published", family="minigrid")["published_elsewhere"]
    driving = document("paper", "published", family="robotics_driving")

    assert [task["id"] for one in minigrid for task in one["tasks"]] == ["MiniGrid-KeyCorridorS4R3-v0"]
    assert "published_elsewhere" not in driving


def test_figures_are_refused_where_entries_are_compared() -> None:
    """What ranks or pairs entries takes none of these figures, and says what would work."""
    assert set(other_names()).isdisjoint(shipped_names())
    with pytest.raises(UsageError, match="--tables published"):
        shipped("published")
    with pytest.raises(UsageError, match="other protocols"):
        evopolicygym.compare("tuner", "random", [], ["published"])
    with pytest.raises(UnknownName, match="published"):
        load_published(["publishd"])


def test_what_is_the_same_is_no_difference() -> None:
    """A protocol is described by what differs from ours alone; what nobody said is said to be unknown."""
    same = OtherProtocol(budget=128, held_out=32, validation=16, max_episodes=128, max_submissions=128)
    unsaid = OtherProtocol(budget=4, held_out=32)

    assert same.differences == ()
    assert unsaid.differences == ("4 train episodes (ours 128)", "validation not stated (ours 16)")


def test_every_figure_is_a_number_of_its_own() -> None:
    """The set holds fourteen tasks, with three entries at least, each once."""
    counts = [len({one.label for one in task.figures}) for task in PUBLISHED.tasks]

    assert [len(task.figures) for task in PUBLISHED.tasks] == counts
    assert len(counts) == 14
    assert min(counts) == 3
    assert json.dumps([one.score for task in PUBLISHED.tasks for one in task.figures])
