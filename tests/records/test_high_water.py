"""High-water marks: a record that goes back is refused and named, whatever happened while its mark was written."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from asking import refusal, submit
from evopolicygym.core.errors import RecordError, StorageError
from evopolicygym.core.event import RunStopped, StopReason
from evopolicygym.records.high_water import SLOT, HighWaterMark, Mark
from evopolicygym.records.reader import read_run
from evopolicygym.records.writer import RunWriter
from fakes import PATIENCE_S, TIME, RunMaker, charged, mark_beside, open_run, opening, trained


def played_twice(root: Path) -> Path:
    """Charge two submissions; return a copy of the record as it was after the first."""
    with RunWriter(root, opening(), mark_beside(root)) as writer:
        writer.record(charged(0))
        before = Path(shutil.copytree(root, root.with_name("before")))
        writer.record(trained(0, 0))
        writer.record(charged(1))
    return before


def test_the_mark_follows_every_flushed_event(tmp_path: Path) -> None:
    """After each event that is flushed the mark says how many there are, the last one's hash and what was charged."""
    root = tmp_path / "run"
    with RunWriter(root, opening(), mark_beside(root)) as writer:
        for event in (charged(0), trained(0, 0), charged(1)):
            writer.record(event)
            record = read_run(root)
            expected = Mark(len(record.events), record.hashes[-1], record.state.spent)

            assert expected == mark_beside(root).read()


def test_a_mark_is_never_ahead_of_what_is_on_disk(tmp_path: Path) -> None:
    """An event that isn't flushed moves no mark: a power cut may take it."""
    root = tmp_path / "run"
    with RunWriter(root, opening(), mark_beside(root)) as writer:
        writer.record(charged(0))
        before = mark_beside(root).read()
        writer.record(trained(0, 0), flush=False)

        assert before == mark_beside(root).read()


def test_an_older_copy_is_not_opened(tmp_path: Path) -> None:
    """A copy from before a charge is refused in words that say what is missing, and the first run goes on."""
    root = tmp_path / "run"
    before = played_twice(root)
    content = (before / "journal.jsonl").read_bytes()
    words = r"\b2 events, 2 episodes.*\b4 events, 4 episodes"
    with pytest.raises(RecordError, match=words):
        RunWriter(before, mark=mark_beside(root))

    assert content == (before / "journal.jsonl").read_bytes()
    RunWriter(root, mark=mark_beside(root)).close()


def test_a_copy_that_went_another_way_is_not_opened(tmp_path: Path) -> None:
    """Of two copies that were played on apart, the one that was not marked is refused however far it went."""
    root = tmp_path / "run"
    before = played_twice(root)
    with RunWriter(before) as writer:
        for place in range(3):
            writer.record(RunStopped(TIME, StopReason.INTERRUPTED, f"stop {place}"))
    with pytest.raises(RecordError, match=r"event 4\b.*\b5 events, 2 episodes"):
        RunWriter(before, mark=mark_beside(root))


def test_two_copies_are_not_played_at_once(tmp_path: Path) -> None:
    """While one copy of a run is open, no other is, wherever it lies."""
    root = tmp_path / "run"
    with RunWriter(root, opening(), mark_beside(root)):
        copy = Path(shutil.copytree(root, tmp_path / "copy"))
        with pytest.raises(RecordError, match="copy of run run"):
            RunWriter(copy, mark=mark_beside(root))


def test_a_run_that_was_moved_goes_on(tmp_path: Path) -> None:
    """A record keeps its mark wherever it is moved, and may have gone further than the mark."""
    root = tmp_path / "run"
    played_twice(root)
    moved = root.rename(tmp_path / "moved")
    with RunWriter(moved) as writer:
        writer.record(trained(0, 1))
    with RunWriter(moved, mark=mark_beside(root)) as writer:
        writer.record(trained(1, 0))

    assert mark_beside(root).read() == Mark(6, read_run(moved).hashes[-1], 4)


def test_an_unmarked_run_is_marked_from_then_on(tmp_path: Path) -> None:
    """A record that was begun before there were marks, or elsewhere, is opened as ever and has one afterwards."""
    root = tmp_path / "run"
    RunWriter(root, opening()).close()
    before = Path(shutil.copytree(root, tmp_path / "before"))
    with RunWriter(root, mark=mark_beside(root)) as writer:
        writer.record(charged(0))
    with pytest.raises(RecordError, match=r"\b1 events"):
        RunWriter(before, mark=mark_beside(root))


@pytest.mark.parametrize("cut", [0, 1, 40, -1])
def test_a_mark_that_was_half_written_is_the_one_before(tmp_path: Path, cut: int) -> None:
    """Of a write that was cut off anywhere nothing counts, and the next write is whole."""
    root = tmp_path / "run"
    played_twice(root)
    mark, before = mark_beside(root), mark_beside(root).read()
    content = mark.path.read_bytes()
    last = max((0, SLOT), key=lambda place: int(content[place : place + SLOT].split()[0]))
    with mark.path.open("r+b") as file:
        file.seek(SLOT - last)
        file.write(content[last : last + SLOT].splitlines()[0].replace(b"4 ", b"5 ", 1)[:cut])
    with RunWriter(root, mark=mark) as writer:
        assert before == mark_beside(root).read()
        writer.record(trained(1, 0))

    assert mark_beside(root).read() == Mark(5, read_run(root).hashes[-1], 4)


@pytest.mark.parametrize("change", [b"", b"1", b"9 " + b"00" * 32 + b" 4 " + b"00" * 32, bytes(2 * SLOT)])
def test_a_mark_that_was_changed_is_told(tmp_path: Path, change: bytes) -> None:
    """What is no mark under the user's key is neither believed nor overlooked."""
    root = tmp_path / "run"
    played_twice(root)
    mark_beside(root).path.write_bytes(change)
    with pytest.raises(RecordError, match="high-water mark of run run"):
        RunWriter(root, mark=mark_beside(root))


def test_a_mark_of_another_run_or_key_is_none(tmp_path: Path) -> None:
    """A mark counts for its own run and under its own key."""
    root = tmp_path / "run"
    played_twice(root)
    mine = mark_beside(root)
    other_run, other_key = mark_beside(tmp_path / "other"), HighWaterMark(mine.path.parent, b"k", "experiment", "run")
    shutil.copy(mine.path, other_run.path)
    for other in (other_run, other_key):
        with pytest.raises(RecordError):
            other.read()


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_what_is_not_marked_is_not_acknowledged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a charge is on disk and its mark isn't, nobody is told of it; it stands, and the run opens again."""
    root, told = tmp_path / "run", list[object]()
    with RunWriter(root, opening(), mark_beside(root)) as writer:
        writer.listen(lambda event, _state: told.append(event))
        with monkeypatch.context() as disk:
            disk.setattr(os, "fdatasync", full)
            with pytest.raises(StorageError, match=r"mark of run run .*No space.* XDG_STATE_HOME"):
                writer.record(charged(0))

        assert (told, writer.state.spent) == ([], 2)
    with RunWriter(root, mark=mark_beside(root)) as writer:
        assert writer.state.spent == 2


def test_a_charge_without_its_mark_stops_the_run(new_run: RunMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who submits hears that the run was stopped, nothing of the submission plays, and who resumes the run plays it."""
    run = new_run(films=3)
    with monkeypatch.context() as disk:
        disk.setattr(os, "fdatasync", full)
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
