"""Verifying: whatever was changed in a record is named, and what was not is not."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dying import play_toy
from evopolicygym.core.cases import Split
from evopolicygym.core.errors import RecordError, UsageError
from evopolicygym.core.event import EpisodePlayed, Event, RunFinished, RunOpened
from evopolicygym.core.run import fold
from evopolicygym.core.score import estimate
from evopolicygym.records.journal import Journal
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import read_run
from evopolicygym.records.verify import findings
from evopolicygym.records.writer import RunWriter
from evopolicygym.runs.replay import ReplayOptions, replay
from played_runs import PlayedRun
from removal import remove
from whole_runs import events


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the record of a run that nobody touched."""
    root = tmp_path_factory.mktemp("toy") / "run"
    play_toy(root, -1)
    return root


@pytest.fixture
def copy(whole: Path, tmp_path: Path) -> RunPaths:
    """Return a copy of it to be tampered with."""
    return RunPaths(Path(shutil.copytree(whole, tmp_path / "copy")))


def wrong(paths: RunPaths) -> list[str]:
    return [one.name for one in findings(paths.root) if not one.ok]


def change_byte(path: Path, place: int = 5) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.chmod(0o644)
    path.write_bytes(content)


def published_file(name: str) -> Callable[[RunPaths], None]:
    return lambda paths: change_byte(next(iter(sorted(paths.published_feedback(0).rglob(name)))))


def more_feedback(paths: RunPaths) -> None:
    paths.published_feedback(0).chmod(0o755)
    (paths.published_feedback(0) / "hint.txt").write_text("5", encoding="utf-8")


def no_feedback(paths: RunPaths) -> None:
    remove(paths.published_feedback(0))


def changed_checkpoint(paths: RunPaths) -> None:
    change_byte(next(iter(sorted(paths.checkpoints.rglob("policy.py")))), 0)


def more_in_checkpoints(paths: RunPaths) -> None:
    (next(iter(sorted(paths.checkpoints.iterdir()))) / "more.py").touch()


def better_score(paths: RunPaths) -> None:
    document = json.loads(paths.document.read_text(encoding="utf-8"))
    document["outcome"]["score"] += 1
    paths.document.write_text(json.dumps(document), encoding="utf-8")


def shorter_journal(paths: RunPaths) -> None:
    paths.journal.write_bytes(b"".join(paths.journal.read_bytes().splitlines(keepends=True)[:-1]))


def torn_journal(paths: RunPaths) -> None:
    paths.journal.write_bytes(paths.journal.read_bytes() + b"torn")


def test_an_untouched_record_is_in_order(whole: Path) -> None:
    """Nothing is found wrong where nothing is."""
    assert wrong(RunPaths(whole)) == []


@pytest.mark.parametrize(
    ("tamper", "named"),
    [
        (lambda paths: change_byte(paths.journal), "journal"),
        (lambda paths: change_byte(paths.journal, -9), "journal"),
        (lambda paths: paths.journal.write_bytes(b""), "journal"),
        (torn_journal, "journal"),
        (lambda paths: change_byte(paths.document), "run.json"),
        (lambda paths: paths.document.unlink(), "run.json"),
        (better_score, "run.json"),
        (published_file("summary.json"), "feedback submit_000"),
        (published_file("trajectory.jsonl"), "feedback submit_000"),
        (more_feedback, "feedback submit_000"),
        (no_feedback, "feedback submit_000"),
    ],
)
def test_what_was_changed_is_named(copy: RunPaths, tamper: Callable[[RunPaths], None], named: str) -> None:
    """One changed byte, one more file or one less is found where it is."""
    tamper(copy)

    assert [named] == wrong(copy)


def test_a_record_without_any_feedback(copy: RunPaths) -> None:
    """All of the feedback may be left out, which is said; a part of it may not."""
    for directory in list(copy.feedback.iterdir())[1:]:
        remove(directory)
    some = wrong(copy)
    remove(copy.feedback)
    found = {one.name: one for one in findings(copy.root)}

    assert some
    assert wrong(copy) == []
    assert found["feedback"].detail


def test_a_record_without_some_checkpoints(copy: RunPaths) -> None:
    """Those that were not selected may be left out, which is said; the one that was scored may not."""
    chosen = read_run(copy.root).state.selected
    assert chosen
    selected = chosen.checkpoint
    for directory in copy.checkpoints.iterdir():
        if directory.name != selected:
            remove(directory)
    some = wrong(copy)
    found = {one.name: one for one in findings(copy.root)}
    remove(copy.checkpoint(selected))

    assert some == []
    assert found["checkpoints"].verdict == "unchecked"
    assert wrong(copy) == [f"checkpoint {selected[:12]}"]


@pytest.mark.parametrize("tamper", [changed_checkpoint, more_in_checkpoints])
def test_a_changed_checkpoint_is_named(copy: RunPaths, tamper: Callable[[RunPaths], None]) -> None:
    """A checkpoint's content is what its name says."""
    first = min(path.name for path in copy.checkpoints.iterdir())
    tamper(copy)

    assert [f"checkpoint {first[:12]}"] == wrong(copy)


def test_a_journal_without_its_last_line_is_a_run_that_goes_on(copy: RunPaths) -> None:
    """A whole last line that is missing can't be told from a crash: the run is not finished, and has no score."""
    shorter_journal(copy)
    found = {one.name: one for one in findings(copy.root)}

    assert "score" not in found


def test_a_broken_rule_is_named(copy: RunPaths) -> None:
    """A chain that is whole but tells what the protocol forbids is refused with the rule."""
    forge(copy, [*events(copy), RunFinished("", fold(events(copy)).finished.status)])  # type: ignore[union-attr]
    found = list(findings(copy.root))

    assert [(one.name, one.ok) for one in found] == [("journal", False)]


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    """A directory without a record can't be verified."""
    with pytest.raises(UsageError):
        list(findings(tmp_path))


def forge(paths: RunPaths, told: list[Event]) -> None:
    """Write another journal, with a chain that fits."""
    paths.journal.unlink()
    with Journal(paths.journal) as opened:
        for event in told:
            opened.append(event, flush=False)


# Playing again


@pytest.fixture
def at_home(run_copy: PlayedRun) -> RunPaths:
    """Be where the secret is, with a copy of a real run."""
    return run_copy.paths


def test_a_true_score_plays_again(at_home: RunPaths) -> None:
    """All held-out cases play the same, whatever the order."""
    again = sorted((one.position, one.same) for one in replay(at_home.root, ReplayOptions(1)))

    assert again == [(0, True), (1, True), (2, True)]


def test_playing_again_leaves_no_trace(at_home: RunPaths) -> None:
    """Who plays a score again changes nothing of the record."""
    before = {path: path.stat().st_mtime_ns for path in at_home.root.rglob("*")}
    list(replay(at_home.root, ReplayOptions(1)))

    assert before == {path: path.stat().st_mtime_ns for path in at_home.root.rglob("*")}


def better(event: Event) -> Event:
    match event:
        case EpisodePlayed(split=Split.HELD_OUT, position=1, episode=episode):
            return replace(event, episode=replace(episode, episode_return=123.0))
        case _:
            return event


def test_a_forged_score_is_found_by_playing_again(at_home: RunPaths) -> None:
    """A record that was forged from end to end passes every check but that one, and the mark where it was played."""
    told = [better(event) for event in events(at_home)]
    score = estimate([e.episode.episode_return for e in told if isinstance(e, EpisodePlayed) and e.split == "held_out"])
    last = told[-1]
    assert isinstance(last, RunFinished)
    forge(at_home, [*told[:-1], replace(last, score=score.mean, standard_error=score.standard_error)])
    with RunWriter(at_home.root) as writer:
        writer.write_document()

    assert wrong(at_home) == ["evaluation", "high-water mark"]
    assert [one.position for one in replay(at_home.root, ReplayOptions(1)) if not one.same] == [1]


def test_other_versions_hinder_no_replay(at_home: RunPaths) -> None:
    """Where a run was begun under other versions its score plays again all the same, and it is told which."""
    first, *rest = events(at_home)
    assert isinstance(first, RunOpened)
    forge(at_home, [replace(first, versions={**first.versions, "numpy": "0.1"}), *rest])
    (found,) = {(one.same, *one.other_versions) for one in replay(at_home.root, ReplayOptions(1))}

    assert found[0]
    assert found[1].startswith("numpy 0.1 ")


def test_what_has_no_score_can_t_be_played_again(at_home: RunPaths) -> None:
    """A run that selected nothing has nothing to play."""
    forge(at_home, list(events(at_home)[:3]))
    with pytest.raises(UsageError, match="open"):
        next(iter(replay(at_home.root)))


def test_another_commitment_is_refused(at_home: RunPaths) -> None:
    """A run that committed to other cases than the secret has is found out, and not played again."""
    first, *rest = events(at_home)
    forge(at_home, [replace(first, commitment="00" * 32), *rest])  # type: ignore[arg-type]
    found = {one.name: one for one in findings(at_home.root)}

    assert not found["commitment"].ok
    with pytest.raises(RecordError, match="committed"):
        next(iter(replay(at_home.root)))
