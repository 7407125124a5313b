"""High-water marks: a record that goes back is refused and named, whatever happened while its mark was written."""

import errno
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from asking import refusal, submit
from evopolicygym.core.errors import RecordError, StorageError
from evopolicygym.core.event import RunStopped, StopReason
from evopolicygym.records import atomic
from evopolicygym.records.reader import read_run
from evopolicygym.records.rollback_guard import Mark
from evopolicygym.records.writer import RunWriter
from fakes import PATIENCE_S, TIME, RunMaker, charged, guard_beside, open_run, opening, trained
from moments import KILLED, in_a_fork


def played_twice(root: Path) -> Path:
    """Charge two submissions; return a copy of the record as it was after the first."""
    with RunWriter(root, opening(), guard_beside(root)) as writer:
        writer.record(charged(0))
        before = Path(shutil.copytree(root, root.with_name("before")))
        writer.record(trained(0, 0))
        writer.record(charged(1))
    return before


def test_the_mark_follows_every_flushed_event(tmp_path: Path) -> None:
    """After each event that is flushed the mark says how many there are, the last one's hash and what was charged."""
    root = tmp_path / "run"
    with RunWriter(root, opening(), guard_beside(root)) as writer:
        for event in (charged(0), trained(0, 0), charged(1)):
            writer.record(event)
            record = read_run(root)
            expected = Mark(len(record.events), record.hashes[-1], record.state.spent)

            assert expected == guard_beside(root).read()


def test_a_mark_is_never_ahead_of_what_is_on_disk(tmp_path: Path) -> None:
    """An event that isn't flushed moves no mark: a power cut may take it."""
    root = tmp_path / "run"
    with RunWriter(root, opening(), guard_beside(root)) as writer:
        writer.record(charged(0))
        before = guard_beside(root).read()
        writer.record(trained(0, 0), flush=False)

        assert before == guard_beside(root).read()


def test_an_older_copy_is_not_opened(tmp_path: Path) -> None:
    """A copy from before a charge is refused in words that say what is missing, and the first run goes on."""
    root = tmp_path / "run"
    before = played_twice(root)
    content = (before / "journal.jsonl").read_bytes()
    words = r"\b2 events, 2 episodes.*\b4 events, 4 episodes"
    with pytest.raises(RecordError, match=words):
        RunWriter(before, guard=guard_beside(root))

    assert content == (before / "journal.jsonl").read_bytes()
    RunWriter(root, guard=guard_beside(root)).close()


def test_a_copy_that_went_another_way_is_not_opened(tmp_path: Path) -> None:
    """Of two copies that were played on apart, the one that was not marked is refused however far it went."""
    root = tmp_path / "run"
    before = played_twice(root)
    with RunWriter(before) as writer:
        for place in range(3):
            writer.record(RunStopped(TIME, StopReason.INTERRUPTED, f"stop {place}"))
    with pytest.raises(RecordError, match=r"event 4\b.*\b5 events, 2 episodes"):
        RunWriter(before, guard=guard_beside(root))


def test_two_copies_are_not_played_at_once(tmp_path: Path) -> None:
    """While one copy of a run is open, no other is, wherever it lies."""
    root = tmp_path / "run"
    with RunWriter(root, opening(), guard_beside(root)):
        copy = Path(shutil.copytree(root, tmp_path / "copy"))
        with pytest.raises(RecordError, match="copy of run run"):
            RunWriter(copy, guard=guard_beside(root))


def test_a_run_that_was_moved_goes_on(tmp_path: Path) -> None:
    """A record keeps its mark wherever it is moved, and may have gone further than the mark."""
    root = tmp_path / "run"
    played_twice(root)
    moved = root.rename(tmp_path / "moved")
    with RunWriter(moved) as writer:
        writer.record(trained(0, 1))
    with RunWriter(moved, guard=guard_beside(root)) as writer:
        writer.record(trained(1, 0))

    assert guard_beside(root).read() == Mark(6, read_run(moved).hashes[-1], 4)


def test_an_unmarked_run_is_marked_from_then_on(tmp_path: Path) -> None:
    """A record that was begun before there were marks, or elsewhere, is opened as ever and has one afterwards."""
    root = tmp_path / "run"
    RunWriter(root, opening()).close()
    before = Path(shutil.copytree(root, tmp_path / "before"))
    with RunWriter(root, guard=guard_beside(root)) as writer:
        writer.record(charged(0))
    with pytest.raises(RecordError, match=r"\b1 events"):
        RunWriter(before, guard=guard_beside(root))


def test_a_process_that_is_killed_over_its_mark_leaves_the_one_before(tmp_path: Path) -> None:
    """Of a write that was cut off nothing counts, and the next write is whole."""
    root = tmp_path / "run"
    played_twice(root)
    before = guard_beside(root).read()

    def killed() -> None:
        database = sqlite3.connect(guard_beside(root).path)
        database.execute("PRAGMA journal_mode = TRUNCATE")
        database.execute("PRAGMA cache_spill = 1")
        database.execute("UPDATE marks SET lines = 9")
        os._exit(KILLED)

    assert in_a_fork(killed) == KILLED
    assert guard_beside(root).read() == before
    with RunWriter(root, guard=guard_beside(root)) as writer:
        writer.record(trained(1, 0))
    assert guard_beside(root).read() == Mark(5, read_run(root).hashes[-1], 4)


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    """A process that dies with a run open hinders nobody."""
    root = tmp_path / "run"
    played_twice(root)

    def killed() -> None:
        RunWriter(root, guard=guard_beside(root))
        os._exit(KILLED)

    assert in_a_fork(killed) == KILLED
    RunWriter(root, guard=guard_beside(root)).close()


def test_processes_mark_their_runs_at_once(tmp_path: Path) -> None:
    """Each run has its own mark in the one table, whoever writes there at the same time."""
    code = (
        "import sys; from pathlib import Path; from fakes import *; from evopolicygym.records.writer import RunWriter\n"
        "root = Path(sys.argv[1])\n"
        "with RunWriter(root, opening(), guard_beside(root)) as writer:\n"
        "    [writer.record(charged(number)) for number in range(4)]"
    )
    roots = [tmp_path / f"run-{number}" for number in range(4)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    players = [subprocess.Popen([sys.executable, "-c", code, str(root)], env=environment) for root in roots]

    assert [player.wait(PATIENCE_S) for player in players] == [0] * len(roots)
    assert [guard_beside(root).read() for root in roots] == [Mark(5, read_run(root).hashes[-1], 8) for root in roots]


@pytest.mark.parametrize("change", [b"9 " * 4096, b"SQLite format 3\0" + bytes(4096)])
def test_a_table_that_was_changed_is_told(tmp_path: Path, change: bytes) -> None:
    """What is no table of marks is neither believed nor overlooked."""
    root = tmp_path / "run"
    played_twice(root)
    guard_beside(root).path.write_bytes(change)
    with pytest.raises(RecordError, match="was changed"):
        guard_beside(root).read()
    with pytest.raises(RecordError, match="was changed"):
        RunWriter(root, guard=guard_beside(root))


def test_a_mark_counts_for_its_own_run(tmp_path: Path) -> None:
    """Another run has none, whatever the table holds."""
    root = tmp_path / "run"
    played_twice(root)

    assert guard_beside(tmp_path / "other").read() is None


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_what_is_not_marked_is_not_acknowledged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a charge is on disk and its mark isn't, nobody is told of it; it stands, and the run opens again."""
    root, told = tmp_path / "run", list[object]()
    with RunWriter(root, opening(), guard_beside(root)) as writer:
        writer.listen(lambda event, _state: told.append(event))
        with monkeypatch.context() as disk:
            disk.setattr(atomic.disk, "commit", full)
            with pytest.raises(StorageError, match=r"mark of run run .*No space.* XDG_STATE_HOME"):
                writer.record(charged(0))

        assert (told, writer.state.spent) == ([], 2)
    with RunWriter(root, guard=guard_beside(root)) as writer:
        assert writer.state.spent == 2


def test_a_charge_without_its_mark_stops_the_run(new_run: RunMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who submits hears that the run was stopped, nothing of the submission plays, and who resumes the run plays it."""
    run = new_run(films=3)
    with monkeypatch.context() as disk:
        disk.setattr(atomic.disk, "commit", full)
        assert refusal(submit(run)) == (503, "unavailable")
    with pytest.raises(StorageError):
        run.session.raise_fault()
    assert refusal(submit(run)) == (503, "unavailable")
    run.session.stop()
    run.writer.close()

    assert run.executor.played == []
    with open_run(run.paths.root) as again:
        again.session.published(0).result(PATIENCE_S)
        assert again.session.state.spent == len(again.executor.played) > 0
