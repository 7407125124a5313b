"""Tables of packs are made from what packs say and from the checks that ship."""

from dataclasses import replace

import pytest

from evopolicygym.analysis.tables import packs as tables
from evopolicygym.core.pack import CheckedTask, PackRecord
from evopolicygym.specs import pack_catalog

PACK = pack_catalog.decode(
    """
    title = "t"
    family = "f"
    licence = "l"
    [[tasks]]
    ids = ["A-v0", "B-v0"]
    kind = "tuning"
    max_steps = 9
    [[unavailable]]
    what = "C-v0"
    tasks = 1
    reason = "it needs a screen"
    """,
    "mine",
)
CHECKED = CheckedTask("A-v0", "A-v0", ok=True, repeats=True, steps_per_second=70, random_mean=-0.5, random_episodes=8,
                      max_steps=9, observation="text", action="Discrete of 2 values")  # fmt: skip
FAILED = CheckedTask("B-v0", "B-v0", ok=False, wrong="it crashed")


@pytest.fixture(autouse=True)
def _shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    record = PackRecord("mine", "0.2.0", "2026-11-23", "x86_64", (), {"python": "3.11.2"}, (CHECKED, FAILED))
    monkeypatch.setattr(tables, "shipped_record", lambda name: record if name == "mine" else None)


def test_what_a_check_found() -> None:
    """Each task has a row, one that failed too; a pack's row counts them."""
    (pack_row,) = tables.packs_table([PACK]).rows

    assert tables.checks_table(PACK).rows == (("A-v0", "once", 70, -0.5, 8), ("B-v0", None, None, None, 0))
    assert pack_row == ("mine", 2, 2, 1, 1, 70, 70, 70, "python 3.11.2", "2026-11-23")


def test_what_episodes_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds and memory of an episode have columns where a check measured them."""
    record = PackRecord(
        "mine", "0.2.0", "2026-11-23", "x86_64", (), {}, (replace(CHECKED, episode_seconds=0.5, memory_mb=90), FAILED)
    )
    monkeypatch.setattr(tables, "shipped_record", lambda _: record)
    table = tables.checks_table(PACK)

    assert [column.heading for column in table.columns][-2:] == ["seconds an episode", "MB"]
    assert [row[-2:] for row in table.rows] == [(0.5, 90), (None, None)]


def test_what_tasks_are() -> None:
    """What all tasks have in common stands in a note, all else in columns."""
    table = tables.tasks_table(PACK)

    assert [column.heading for column in table.columns] == ["task", "observation", "action"]
    assert table.rows == (("A-v0", "text", "Discrete of 2 values"), ("B-v0", None, None))
    assert table.notes == ("The kind of every task: tuning.", "The limit of every task: 9.")


def test_what_cannot_be_had() -> None:
    """The ledger has a row for each of its entries."""
    assert tables.ledger_table([PACK]).rows == (("mine", "C-v0", 1, "it needs a screen"),)


def test_a_pack_without_a_check() -> None:
    """A pack that was not checked has no row among those that were."""
    assert tables.packs_table([pack_catalog.load("classic")]).rows == ()


def test_the_median_speed_of_two_tasks_is_their_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    """An even number of tasks has a speed midway between the two in the middle."""
    checked = (CHECKED, replace(CHECKED, name="B-v0", steps_per_second=90))
    record = PackRecord("mine", "0.2.0", "2026-11-23", "x86_64", (), {}, checked)
    monkeypatch.setattr(tables, "shipped_record", lambda _: record)
    (row,) = tables.packs_table([PACK]).rows

    assert row[5:8] == (70, 80, 90)
