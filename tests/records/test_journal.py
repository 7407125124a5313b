"""The journal: a chain that shows every change, a torn end that loses nothing before it, and no half-written line."""

import errno
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from evopolicygym.core import strict_json
from evopolicygym.core.errors import RecordError
from evopolicygym.core.event import Event
from evopolicygym.core.rollout import Failure, FailureReason
from evopolicygym.records import journal
from evopolicygym.records.journal import Journal
from fakes import charged, trained, whole_run

EVENTS = whole_run()[:6]
each_content = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """Return a journal of a few events."""
    path = tmp_path / "journal.jsonl"
    with Journal(path) as opened:
        for event in EVENTS:
            opened.append(event, flush=False)
        opened.flush()
    return path


def test_what_was_appended_is_read(written: Path) -> None:
    """The events are there in their order, and nothing else."""
    contents = journal.read(written)

    assert (tuple(EVENTS), 0) == (contents.events, contents.torn)


@settings(max_examples=25)
@given(some.floats(), some.text(), some.lists(some.integers(0, 2**63), max_size=3))
def test_an_event_is_read_as_it_was_written(value: float, words: str, cases: list[int]) -> None:
    """Numbers, those that are none too, and texts come back from a line as they were, bit for bit."""
    failure = Failure(FailureReason.ERROR, step=0, message=words, traceback=words)
    event = trained(0, 0)
    events = [
        replace(event, episode=replace(event.episode, episode_return=value, failure=failure)),
        replace(charged(1), env_instances=tuple(cases)),
    ]
    again = [journal.decode_event(strict_json.decode(strict_json.dumps(journal.encode_event(one)))) for one in events]

    assert repr(again) == repr(events)


def test_a_journal_goes_on_where_it_stopped(written: Path) -> None:
    """Opened again, the chain goes on."""
    with Journal(written) as opened:
        opened.append(charged(1), flush=True)

    assert (*EVENTS, charged(1)) == journal.read(written).events


def test_a_new_journal_is_empty(tmp_path: Path) -> None:
    """A journal that is begun holds nothing."""
    with Journal(tmp_path / "journal.jsonl") as opened:
        assert opened.events == ()


@each_content
@given(some.data())
def test_any_changed_byte_is_refused(written: Path, data: some.DataObject) -> None:
    """Whichever byte is changed to whatever, nothing goes on from there: a line's end at the last place aside."""
    content = bytearray(written.read_bytes())
    place = data.draw(some.integers(0, len(content) - 2))
    content[place] = data.draw(some.integers(1, 255).filter(lambda value: value != content[place]))
    changed = written.with_name("changed.jsonl")
    changed.write_bytes(content)

    with pytest.raises(RecordError, match=r"line \d+ "):
        journal.read(changed)


@each_content
@given(some.integers(0, len(EVENTS) - 2))
def test_a_zeroed_byte_before_the_last_line_is_refused(written: Path, line: int) -> None:
    """Zeros are a torn end only at the end."""
    lines = written.read_bytes().splitlines(keepends=True)
    lines[line] = lines[line].replace(b"e", b"\0", 1)
    changed = written.with_name("changed.jsonl")
    changed.write_bytes(b"".join(lines))

    with pytest.raises(RecordError, match=f"line {line + 1} "):
        journal.read(changed)


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: [*lines[:2], *lines[3:]],
        lambda lines: [lines[0], lines[2], lines[1], *lines[3:]],
        lambda lines: [*lines, lines[-1]],
        lambda lines: lines[1:],
        lambda lines: [*lines[:2], b"\n", *lines[2:]],
        lambda lines: [*lines, b"{}\n"],
    ],
    ids=["left out", "out of order", "repeated", "beheaded", "empty line", "foreign line"],
)
def test_lines_are_chained(written: Path, change: Callable[[list[bytes]], list[bytes]]) -> None:
    """Whole lines can't be left out, moved, repeated or put in."""
    written.write_bytes(b"".join(change(written.read_bytes().splitlines(keepends=True))))

    with pytest.raises(RecordError, match=r"line \d+ "):
        journal.read(written)


@each_content
@given(some.data())
def test_a_torn_end_is_cut(written: Path, data: some.DataObject) -> None:
    """A file that ends anywhere in a line, with or without zeros behind, holds all lines before it."""
    content = written.read_bytes()
    cut = data.draw(some.integers(0, len(content)))
    torn = written.with_name("torn.jsonl")
    torn.write_bytes(content[:cut] + b"\0" * data.draw(some.integers(0, 5000)))
    whole = content[:cut].count(b"\n")
    with Journal(torn) as opened:
        found = opened.events
        opened.append(charged(7), flush=True)

    assert tuple(EVENTS[:whole]) == found
    assert (*EVENTS[:whole], charged(7)) == journal.read(torn).events


def test_a_last_line_that_the_disk_lost_is_cut(written: Path) -> None:
    """A last line whose beginning came back as zeros was never told to anyone."""
    content = written.read_bytes()
    last = content[:-1].rindex(b"\n") + 1
    written.write_bytes(content[:last] + b"\0" * 40 + content[last + 40 :])
    contents = journal.read(written)

    assert (tuple(EVENTS[:-1]), len(content) - last) == (contents.events, contents.torn)


def test_reading_changes_nothing(written: Path) -> None:
    """Who only reads cuts nothing off."""
    written.write_bytes(written.read_bytes() + b"torn")
    journal.read(written)

    assert written.read_bytes().endswith(b"torn")


def _no_room_after(count: int) -> Callable[[int, bytes, int], int]:
    """Return a ``pwrite`` that has room for so many bytes."""
    left = [count]
    really = os.pwrite

    def pwrite(descriptor: int, content: bytes, offset: int) -> int:
        if not left[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = really(descriptor, content[: left[0]], offset)
        left[0] -= written
        return written

    return pwrite


@pytest.mark.parametrize("room", [0, 1, 100, 300])
def test_a_line_without_room_leaves_the_file_as_it_was(
    written: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    """A full disk in the middle of a line leaves no half of it, and there can be a next."""
    before = written.read_bytes()
    with Journal(written) as opened:
        with monkeypatch.context() as full:
            full.setattr(os, "pwrite", _no_room_after(room))
            with pytest.raises(OSError, match="No space"):
                opened.append(trained(0, 0), flush=True)
        after = written.read_bytes()
        opened.append(charged(1), flush=True)

    assert before == after
    assert (*EVENTS, charged(1)) == journal.read(written).events


@pytest.mark.parametrize("error", [OSError(errno.EIO, "broken"), KeyboardInterrupt()])
def test_a_failed_flush_leaves_the_file_as_it_was(
    written: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """A line that may not be on disk is taken back; so is one that was interrupted."""
    before = written.read_bytes()

    def fsync(_descriptor: int) -> None:
        raise error

    with Journal(written) as opened:
        with monkeypatch.context() as broken:
            broken.setattr(os, "fsync", fsync)
            with pytest.raises(type(error)):
                opened.append(trained(0, 0), flush=True)
        after = written.read_bytes()
        opened.append(charged(1), flush=True)

    assert before == after
    assert (*EVENTS, charged(1)) == journal.read(written).events


def test_a_line_that_can_t_be_taken_back_is_cut_off_before_the_next(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a long line's flush fails and so does cutting it off, nothing of it shows behind the shorter next one."""

    def broken(*_: object) -> None:
        raise OSError(errno.EIO, "broken")

    with Journal(written) as opened:
        with monkeypatch.context() as disk:
            disk.setattr(os, "fsync", broken)
            disk.setattr(os, "ftruncate", broken)
            with pytest.raises(OSError, match="broken"):
                opened.append(charged(1, key="k" * 200), flush=True)
        opened.append(charged(1), flush=True)

    assert (*EVENTS, charged(1)) == journal.read(written).events


@pytest.mark.parametrize("flushes", [1, 0])
def test_a_flushed_line_is_on_disk(
    written: Path,
    monkeypatch: pytest.MonkeyPatch,
    flushes: int,
) -> None:
    """A charge is flushed before it is acted on; what can be played again need not be."""
    flushed: list[int] = []
    with Journal(written) as opened, monkeypatch.context() as watched:
        watched.setattr(os, "fsync", flushed.append)
        opened.append(charged(1), flush=bool(flushes))

    assert flushes == len(flushed)


@pytest.mark.parametrize("torn", [b"", b"torn"])
def test_what_is_opened_is_on_disk(written: Path, monkeypatch: pytest.MonkeyPatch, torn: bytes) -> None:
    """A journal's name and the cutting of a torn end are flushed, and so is all when that is asked for."""
    written.write_bytes(written.read_bytes() + torn)
    flushed: list[Path] = []
    monkeypatch.setattr(os, "fsync", lambda number: flushed.append(Path(f"/proc/self/fd/{number}").readlink()))
    with Journal(written) as opened:
        first = list(flushed)
        opened.flush()

    assert [written.parent, *([written] if torn else [])] == first
    assert [*first, written] == flushed


def test_nothing_is_appended_to_a_closed_journal(written: Path) -> None:
    """Who still holds a closed journal writes nowhere, even if its descriptor's number was given again."""
    before = written.read_bytes()
    with Journal(written) as opened:
        pass
    with written.open("rb"), pytest.raises(OSError, match="Bad file descriptor"):
        opened.append(charged(1), flush=True)

    assert before == written.read_bytes()


def test_short_writes_are_gone_on_with(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A system that takes a few bytes at a time gets the whole line all the same."""
    really = os.pwrite
    with Journal(written) as opened, monkeypatch.context() as slow:
        slow.setattr(os, "pwrite", lambda descriptor, content, offset: really(descriptor, content[:7], offset))
        opened.append(charged(1), flush=True)

    assert (*EVENTS, charged(1)) == journal.read(written).events


def test_a_journal_of_events_that_break_the_rules_is_still_a_chain(tmp_path: Path) -> None:
    """The journal keeps the chain; what may follow what is the fold's to say."""
    events: list[Event] = [charged(5), charged(5)]
    with Journal(tmp_path / "journal.jsonl") as opened:
        for event in events:
            opened.append(event, flush=False)

    assert tuple(events) == journal.read(tmp_path / "journal.jsonl").events
