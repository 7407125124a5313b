"""Marks of real runs: who rewinds a record and resumes it gets no budget back, and verifying says what is missing."""

import errno
import os
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from evopolicygym.core.cases import SplitSource
from evopolicygym.core.errors import RecordError, StorageError, UsageError
from evopolicygym.core.run import RunState, Stage
from evopolicygym.records import atomic, verify
from evopolicygym.records.atomic import Disk
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import find_runs
from evopolicygym.records.rollback_guard import DATABASE, FINDING, is_own_run
from evopolicygym.runs import run
from played_runs import PlayedRun
from shell import Shell
from whole_runs import config, played, state_kept_in

SPENT_HALF = 14
"""Events of the run below, some of its budget charged."""


@pytest.fixture(scope="module", params=[SplitSource.PUBLIC, SplitSource.PRIVATE])
def begun(
    played_run: PlayedRun, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[tuple[Path, Path]]:
    """Yield a whole real run and the state of the user who played it."""
    if request.param is SplitSource.PRIVATE:
        yield played_run.paths.root, played_run.state_home
        return
    place = tmp_path_factory.mktemp("real")
    with state_kept_in(place / "state"):
        yield played(config(place / "runs", split=request.param)).paths.root, place / "state"


@pytest.fixture
def rewound(begun: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the run as it was in the middle, where it was played."""
    root, state = begun
    monkeypatch.setenv("XDG_STATE_HOME", str(shutil.copytree(state, tmp_path / "its state")))
    paths = RunPaths(Path(shutil.copytree(root, tmp_path / "copy")))
    lines = paths.journal.read_bytes().splitlines(keepends=True)
    paths.journal.write_bytes(b"".join(lines[:SPENT_HALF]))
    paths.document.unlink()
    shutil.rmtree(paths.evaluation)
    return paths.root


def taken_up(root: Path) -> RunState:
    return run.resume(root, 1, lambda _paths, _state: None, lambda _event, _state: None)


def said(root: Path) -> tuple[bool, str]:
    """Return what verifying says of the mark."""
    (found,) = (one for one in verify.findings(root) if one.name == FINDING)
    return found.ok, found.detail


def test_a_run_that_went_back_is_not_resumed(rewound: Path) -> None:
    """Its budget is not given back: the refusal says what was spent, and the record stays as it is."""
    before = {path: path.read_bytes() for path in rewound.rglob("*") if path.is_file()}
    words = rf"{SPENT_HALF} events.* 10 episodes"
    with pytest.raises(RecordError, match=words):
        taken_up(rewound)

    assert before == {path: path.read_bytes() for path in rewound.rglob("*") if path.is_file()}


def test_a_run_that_went_back_is_named_by_verify(rewound: Path, begun: tuple[Path, Path], shell: Shell) -> None:
    """Verifying fails and says so; the run that it was copied from is in order wherever it lies."""
    done = shell("verify", str(rewound))

    assert done.code == 1
    assert FINDING in done.out
    ok, detail = said(begun[0])
    assert ok
    assert "not checked" not in detail


def test_what_was_begun_elsewhere_is_not_checked(
    rewound: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """On another machine, or for another user, nothing can be said, and nothing is held against the record."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    ok, detail = said(rewound)

    assert ok
    assert "not checked" in detail
    assert not (tmp_path / "elsewhere").exists()


def test_a_run_is_known_where_it_was_played(
    begun: tuple[Path, Path], rewound: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A run is known to its user, wherever it lies, and to nobody else; a record that was rewound is not."""
    copy = Path(shutil.copytree(begun[0], tmp_path / "moved"))

    assert (is_own_run(copy), is_own_run(rewound)) == (True, False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    assert not is_own_run(copy)
    with pytest.raises(UsageError):
        is_own_run(tmp_path)


def marks_of_user() -> Path:
    return Path(os.environ["XDG_STATE_HOME"]) / "evopolicygym" / "experiments" / "marks"


def test_a_damaged_state_is_told(rewound: Path) -> None:
    """A table that was changed is named, and nothing is taken for granted."""
    (marks_of_user() / DATABASE).write_text("0" * 4096)
    ok, detail = said(rewound)

    assert not ok
    assert "was changed" in detail
    assert not is_own_run(rewound)
    with pytest.raises(RecordError, match="was changed"):
        taken_up(rewound)


def test_a_mark_that_was_removed_is_missed(rewound: Path) -> None:
    """A run of an experiment that began here, without its mark, is nobody's own, and verifying it fails."""
    (marks_of_user() / DATABASE).unlink()
    ok, detail = said(rewound)

    assert (is_own_run(rewound), ok) == (False, False)
    assert "mark was removed" in detail


def test_marks_are_their_users_alone(rewound: Path) -> None:
    """Nobody else can read them."""
    assert rewound.exists()
    assert marks_of_user().stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("there", ["experiments", "experiments/marks"])
def test_a_state_directory_that_can_t_be_written(tmp_path: Path, state_home: Path, there: str) -> None:
    """It is said, with the variable that names another, before there is a record."""
    (state_home / "evopolicygym" / there).parent.mkdir(parents=True)
    (state_home / "evopolicygym" / there).write_text("no directory")
    with pytest.raises(UsageError, match="XDG_STATE_HOME"):
        played(config(tmp_path / "runs"))

    assert list(tmp_path.rglob("journal.jsonl")) == []


class NoRoomForMarks(Disk):
    """A disk that can't write a mark, once, at the n-th that follows an event."""

    def __init__(self, number: int) -> None:
        self._left = number

    def commit(self, database: sqlite3.Connection) -> None:
        self._left -= 1
        if not self._left:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().commit(database)


@pytest.mark.parametrize("number", [2, *(pytest.param(number, marks=pytest.mark.nightly) for number in (1, 3))])
def test_a_real_run_without_room_for_its_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """It stops with what to do, whichever event's mark can't be written, and is resumed to a record in order."""
    monkeypatch.setattr(atomic, "disk", NoRoomForMarks(number))
    with pytest.raises(StorageError, match=r"(?s)No space.*evopolicygym resume ") as told:
        played(config(tmp_path / "runs", "players:make_breaker", budget=2))
    (root,) = find_runs(tmp_path / "runs")
    state = taken_up(root)

    assert "high-water mark" in str(told.value)
    assert (state.stage, state.spent) == (Stage.FINISHED, 2)
    assert [one for one in verify.findings(root) if not one.ok] == []
