"""The checks of packs that ship are of the packs as they are: of every task, of the pins, of the limits."""

import re

import pytest

from evopolicygym.core.pack import Pack, PackRecord
from evopolicygym.specs import pack_catalog
from evopolicygym.specs.pack_catalog import shipped_record

PACKS = [pack_catalog.load(name) for name in pack_catalog.names()]
PINNED = re.compile(r"([\w.-]+)(?:\[[\w,-]+\])?==([\w.]+)")
each_pack = pytest.mark.parametrize("pack", [one for one in PACKS if one.tasks], ids=lambda pack: pack.name)


def record_of(pack: Pack) -> PackRecord:
    found = shipped_record(pack.name)
    assert found is not None, f"evopolicygym packs check {pack.name} --output FILE makes it"
    return found


@each_pack
def test_every_task_was_checked(pack: Pack) -> None:
    """Each task of each pack passed in the record that ships; what can't be played is no task, but in the ledger."""
    record = record_of(pack)
    passed = {one.name for one in record.tasks if one.ok and one.repeats}

    assert [task.name for task in pack.tasks if task.name not in passed] == []
    assert [one.name for one in record.tasks if not pack.task(one.name)] == []


@each_pack
def test_a_record_is_of_the_pins(pack: Pack) -> None:
    """A pack whose pins have changed needs a new record."""
    record = record_of(pack)
    pins = {name.lower(): version for name, version in map(_pin, pack.requirements)}

    assert (record.pack, record.requirements) == (pack.name, pack.requirements)
    assert {name: record.versions[name] for name in pins if name in record.versions} == {
        name: version for name, version in pins.items() if name in record.versions
    }
    assert {"python", "gymnasium", "numpy", *pack.packages} <= record.versions.keys()


@each_pack
def test_a_record_is_of_the_limits(pack: Pack) -> None:
    """A task was played with the limit that its pack says."""
    record = record_of(pack)
    said = {task.name: task.max_steps for task in pack.tasks if task.max_steps}

    assert {name: found.max_steps for name in said if (found := record.task(name))} == said


def _pin(requirement: str) -> tuple[str, str]:
    found = PINNED.fullmatch(requirement)
    assert found, requirement
    return found[1], found[2]
