"""Temporary files of simulators: in a place of their worker's own, and gone with it."""

import tempfile
from pathlib import Path

import pytest

from playground import local_executor, policy
from simulators import IS_KILLED, STEPS, spec


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory in which this process, and all that it starts, would leave temporary files."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return place


def test_simulators_leave_nothing_behind(temporary: Path, tmp_path: Path) -> None:
    """What a simulator leaves lies in scratch of the executor while it plays, and nowhere when it is closed."""
    with local_executor("bubblewrap", spec("Littering", marker=str(tmp_path / "marker")), tmp_path) as ground:
        ground.play(policy(), 1, 2)
        left = [one.parent.parent for one in tmp_path.rglob("litter*")]

    assert left == [tmp_path / "scratch"] * 2 * STEPS
    assert list(tmp_path.rglob("litter*")) == list(temporary.iterdir()) == []


def test_a_worker_that_was_killed_leaves_nothing_to_the_next(temporary: Path, tmp_path: Path) -> None:
    """The worker in the place of one that was killed begins with an empty directory."""
    with local_executor("bubblewrap", spec("Littering", marker=str(tmp_path / "marker")), tmp_path) as ground:
        ground.play(policy(), IS_KILLED)
        left = list(tmp_path.rglob("litter*"))

    assert (len(ground.repeated), len(left)) == (1, STEPS)
    assert list(temporary.iterdir()) == []
