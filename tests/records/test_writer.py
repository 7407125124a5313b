"""The writer: one at a time, nothing known that is not on disk, nothing on disk that breaks a rule."""

import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from evopolicygym.core.errors import RecordError, UsageError
from evopolicygym.core.event import AgentEnded, AgentStarted, Event, RunStopped, StopReason
from evopolicygym.core.run import RunState, Stage, fold
from evopolicygym.records import atomic, journal
from evopolicygym.records.paths import RunPaths, run_directory
from evopolicygym.records.reader import find_runs, read_run
from evopolicygym.records.run_document import document_text
from evopolicygym.records.writer import ListenerFailed, RunWriter
from fakes import TIME, charged, opening, published, trained, whole_run


def play(root: Path, events: list[Event]) -> None:
    with RunWriter(root, events[0]) as writer:
        for event in events[1:]:
            writer.record(event)
        writer.write_document()


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    """While one process has a run open, no other can."""
    with RunWriter(tmp_path, opening()), pytest.raises(RecordError, match="another process"):
        RunWriter(tmp_path)


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    """The lock holds between processes too."""
    program = (
        "import sys; from pathlib import Path; from evopolicygym.records.writer import RunWriter;"
        "RunWriter(Path(sys.argv[1]))"
    )
    with RunWriter(tmp_path, opening()):
        found = subprocess.run(
            [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=False
        )

    assert "RecordError" in found.stderr


def test_a_closed_run_can_be_opened(tmp_path: Path) -> None:
    """Who closes a run gives up its lock, and the next finds its state."""
    with RunWriter(tmp_path, opening()) as writer:
        writer.record(charged(0))
    with RunWriter(tmp_path) as writer:
        assert writer.state == fold([opening(), charged(0)])


def test_a_run_is_opened_once(tmp_path: Path) -> None:
    """A directory that holds a run is not begun again, and is not left locked."""
    play(tmp_path, [opening()])
    with pytest.raises(RecordError, match=str(tmp_path)):
        RunWriter(tmp_path, opening())

    RunWriter(tmp_path).close()


@pytest.mark.parametrize("bad", [charged(1), trained(0, 0), published(0)])
def test_what_breaks_a_rule_is_not_written(tmp_path: Path, bad: Event) -> None:
    """An event that can't be folded never reaches the disk."""
    with RunWriter(tmp_path, opening()) as writer:
        before = writer.paths.journal.read_bytes()
        with pytest.raises(RecordError):
            writer.record(bad)

        assert before == writer.paths.journal.read_bytes()
        assert writer.state == fold([opening()])


def test_what_can_t_be_written_is_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the disk is full, the state stays as it was and nobody is told."""
    told: list[Event] = []

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with RunWriter(tmp_path, opening()) as writer:
        writer.listen(lambda event, _state: told.append(event))
        with monkeypatch.context() as disk:
            disk.setattr(os, "pwrite", full)
            with pytest.raises(OSError, match="No space"):
                writer.record(charged(0))

        assert (writer.state.spent, told) == (0, [])


def test_listeners_are_told_after_it_is_on_disk(tmp_path: Path) -> None:
    """A listener sees the event and the state after it, in order."""
    told: list[tuple[Event, RunState]] = []
    events = whole_run()
    with RunWriter(tmp_path, events[0]) as writer:
        writer.listen(lambda event, state: told.append((event, state)))
        for event in events[1:]:
            writer.record(event)

    assert [(event, fold(events[: place + 2])) for place, event in enumerate(events[1:])] == told


def test_the_document_is_derived_from_the_journal(tmp_path: Path) -> None:
    """run.json says the outcome that the journal folds to."""
    play(tmp_path, whole_run())
    document = json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))
    outcome = document["outcome"]

    assert (
        outcome["score"],
        outcome["selected_submission"],
        outcome["held_out_returns"],
        outcome["status"],
    ) == (2.0, 1, [1.0, 2.0, 3.0], "scored")
    assert document["budget"] == {"episodes": 8, "spent": 8, "submissions": 2}
    assert [one["train_mean"] for one in document["submissions"]] == [2.5, 6.5]
    assert [one["validation_mean"] for one in document["submissions"]] == [1.5, 3.5]
    assert outcome["success_rate"] == 1.0


@pytest.mark.parametrize("count", range(1, len(whole_run()) + 1))
def test_there_is_a_document_at_every_moment(tmp_path: Path, count: int) -> None:
    """run.json can be derived wherever a run stands."""
    play(tmp_path, whole_run()[:count])

    assert fold(whole_run()[:count]).stage == json.loads((tmp_path / "run.json").read_text())["stage"]


def test_a_document_never_runs_ahead_of_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What run.json says is on disk in the journal before."""
    flushed: list[str] = []
    really = os.fsync

    def fsync(number: int) -> None:
        flushed.append(Path(f"/proc/self/fd/{number}").readlink().name)
        really(number)

    with RunWriter(tmp_path, opening()) as writer:
        writer.record(charged(0), flush=False)
        monkeypatch.setattr(os, "fsync", fsync)
        writer.write_document()

    assert ["journal.jsonl", f"run.json.{os.getpid()}.part", tmp_path.name] == flushed


def test_a_document_is_whole_or_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that can't be written whole is not put in the other's place."""
    file = tmp_path / "run.json"
    atomic.write_text(file, "before")

    def broken(_descriptor: int) -> None:
        raise OSError(errno.EIO, "broken")

    with monkeypatch.context() as disk:
        disk.setattr(os, "fsync", broken)
        with pytest.raises(OSError, match="broken"):
            atomic.write_text(file, "after")

    assert file.read_text(encoding="utf-8") == "before"


def test_a_file_is_created_once(tmp_path: Path) -> None:
    """Of two who create a file, one does, and its content stays."""
    file = tmp_path / "experiment.json"
    atomic.create_text(file, "first")
    with pytest.raises(FileExistsError):
        atomic.create_text(file, "second")

    assert [path.name for path in tmp_path.iterdir()] == ["experiment.json"]
    assert file.read_text(encoding="utf-8") == "first"


@pytest.mark.parametrize(("place", "said"), [("absent", "absent"), ("", "some/run")])
def test_what_is_no_run_is_told_with_what_is(tmp_path: Path, place: str, said: str) -> None:
    """Who names another directory is told what lies below it."""
    play(tmp_path / "some" / "run", [opening()])
    with pytest.raises(UsageError, match=said):
        read_run(tmp_path / place)


def test_a_directory_without_any_run(tmp_path: Path) -> None:
    """Who names a directory without runs is told what one holds."""
    with pytest.raises(UsageError, match=r"journal\.jsonl"):
        read_run(tmp_path)


def test_an_empty_journal_is_told(tmp_path: Path) -> None:
    """A run that was never opened is named so."""
    RunPaths(tmp_path).journal.touch()
    with pytest.raises(RecordError):
        read_run(tmp_path)


def test_runs_are_found(tmp_path: Path) -> None:
    """Every run below a directory is found, in the order of paths."""
    places = [run_directory(tmp_path, "default", "random", task, "1") for task in ("acrobot", "reacher")]
    for place in places:
        play(place, [opening()])

    assert places == list(find_runs(tmp_path))


@pytest.mark.parametrize(
    ("name", "expected"), [("../../etc", "etc"), ("package.module:Class", "package.module-Class"), ("///", "unnamed")]
)
def test_any_name_can_be_a_directory(name: str, expected: str) -> None:
    """An agent's or a spec's name never leads out of the directory of runs."""
    assert Path("runs/default") / expected / "toy" / "1" == run_directory(Path("runs"), "default", name, "toy", "1")


def test_a_run_can_be_read_while_it_is_played(tmp_path: Path) -> None:
    """Reading needs no lock, and sees what is on disk."""
    with RunWriter(tmp_path, opening()) as writer:
        writer.record(charged(0))

        assert (read_run(tmp_path).state.stage, read_run(tmp_path).state.spent) == (Stage.OPEN, 2)


@pytest.mark.parametrize("name", ["", ".", "..", "../../elsewhere", "a/b", "/etc"])
def test_a_checkpoint_lies_in_its_run(tmp_path: Path, name: str) -> None:
    """A journal from elsewhere can't name a checkpoint that lies outside of its run."""
    with pytest.raises(RecordError, match=re.escape(repr(name))):
        RunPaths(tmp_path).checkpoint(name)


def test_a_run_is_its_users_alone(tmp_path: Path) -> None:
    """Nobody else can start what an agent leaves in its project, whatever rights it gives it."""
    with RunWriter(tmp_path / "run", opening()):
        assert (tmp_path / "run").stat().st_mode & 0o777 == 0o700


def test_what_a_listener_raises_is_no_refusal(tmp_path: Path) -> None:
    """An event that was recorded stands, and the failure of one who was told of it is not taken for the disk's."""

    def fail(_event: Event, _state: RunState) -> None:
        raise BrokenPipeError("nobody reads any more")

    with RunWriter(tmp_path / "run", opening()) as writer:
        writer.listen(fail)
        with pytest.raises(ListenerFailed, match=r"SubmissionCharged.*nobody reads"):
            writer.record(charged(0))

        assert writer.state.submissions[0].charged == charged(0)


def test_a_journal_that_can_t_be_opened_leaves_nothing_open(tmp_path: Path) -> None:
    """An attempt to open what is no run closes all that it opened."""
    (tmp_path / "journal.jsonl").touch()
    with pytest.raises(RecordError):
        RunWriter(tmp_path)

    names = [os.path.realpath(descriptor) for descriptor in Path("/proc/self/fd").iterdir()]
    assert [name for name in names if name.startswith(str(tmp_path.resolve()))] == []


def test_files_are_on_disk_before_what_is_flushed_after_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An episode's line is not flushed; the first that is has the episode's files flushed before it."""
    seen: list[str] = []
    directory = tmp_path / "episode"
    with RunWriter(tmp_path / "run", opening()) as writer:
        writer.record(charged(0))
        directory.mkdir()
        monkeypatch.setattr(atomic, "flush_tree", lambda place: seen.append(place.name))
        monkeypatch.setattr(atomic.disk, "flush", lambda _descriptor: seen.append("a line"))
        writer.record(trained(0, 0), flush=False, files=directory)
        assert seen == []
        writer.record(charged(1))

    assert seen[:2] == ["episode", "a line"]


def test_halves_of_characters_end_no_run(tmp_path: Path) -> None:
    """A text that UTF-8 can't hold is written with a mark instead."""
    with RunWriter(tmp_path / "run", opening()) as writer:
        writer.record(RunStopped(TIME, StopReason.AGENT, "\ud800"))

    (*_, last) = journal.read(tmp_path / "run" / "journal.jsonl").events
    assert last == RunStopped(TIME, StopReason.AGENT, "?")


def test_a_document_is_made_of_what_the_writer_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is read again for run.json, which is that of the journal to the byte, whatever an agent said."""
    first, *events = whole_run()
    events[:0] = [AgentStarted(TIME, 0), AgentEnded(TIME, 0, "crashed", "half a pair: \ud83d", usage={"input": 5})]
    with RunWriter(tmp_path, first) as writer:
        with monkeypatch.context() as unread:
            unread.setattr(journal, "read", None)
            for event in events:
                writer.record(event)
            writer.write_document()

        assert writer.state == read_run(tmp_path).state
    assert RunPaths(tmp_path).document.read_text(encoding="utf-8") == document_text(RunPaths(tmp_path))
