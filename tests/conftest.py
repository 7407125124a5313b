"""Fixtures of all rooms. A test never touches the user's own state directory."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes import RunMaker


@pytest.fixture(autouse=True)
def state_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have secrets kept below the test's own directory."""
    home = tmp_path / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(home))
    return home


@pytest.fixture
def new_run(tmp_path: Path) -> Iterator[RunMaker]:
    """Return what opens runs on the toy; they are closed when the test ends."""
    maker = RunMaker(tmp_path)
    with maker.stack:
        yield maker
