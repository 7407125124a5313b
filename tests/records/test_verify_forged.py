"""Verifying: records whose journal was written anew, with a chain that fits, so that it says something else."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import evopolicygym
from dying import play_toy
from evopolicygym.core.cases import Split
from evopolicygym.core.event import (
    SCHEMA,
    CheckpointSelected,
    EpisodePlayed,
    Event,
    RunFinished,
    RunOpened,
)
from evopolicygym.core.rollout import Episode
from evopolicygym.core.run import RunState, after
from evopolicygym.records.experiment import LEDGER_FILE
from evopolicygym.records.feedback import feedback_sha256, log_sha256
from evopolicygym.records.journal import Journal
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import read_run
from evopolicygym.records.rollback_guard import FINDING
from evopolicygym.records.run_document import document_text
from evopolicygym.records.verify import findings
from evopolicygym.runs.replay import ReplayOptions, open_replay
from played_runs import PlayedRun
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


def forge(paths: RunPaths, forged: Sequence[Event]) -> None:
    """Write another journal that keeps every rule: selection and score follow from its episodes."""
    paths.journal.unlink()
    state: RunState | None = None
    with Journal(paths.journal) as journal:
        for event in forged:
            if isinstance(event, CheckpointSelected) and state and (choice := state.choice()):
                checkpoint = state.submissions[choice.submit_index].charged.checkpoint
                event = CheckpointSelected(  # noqa: PLW2901 - the same event as it has to be
                    event.time, choice.submit_index, checkpoint, choice.validation_mean
                )
            if isinstance(event, RunFinished) and state and (score := state.held_out()):
                event = replace(event, score=score.mean, standard_error=score.standard_error)  # noqa: PLW2901 - as above
            state = after(state, event)
            journal.append(event, flush=False)
    paths.document.write_text(document_text(paths), encoding="utf-8")


def changed(paths: RunPaths, kind: type[Event], **changes: Any) -> list[Event]:
    """Return a run's events with other fields in those of one kind."""
    return [replace(event, **changes) if isinstance(event, kind) else event for event in events(paths)]


def swapped(paths: RunPaths, split: Split) -> list[Event]:
    """Return a run's events with the returns of two episodes of a split exchanged, 1 added to one where they agree."""
    found = list(events(paths))
    (first, one), (second, other) = [
        (place, event)
        for place, event in enumerate(found)
        if isinstance(event, EpisodePlayed) and event.split is split and event.position in {0, 1}
    ][:2]
    assert isinstance(one, EpisodePlayed)
    assert isinstance(other, EpisodePlayed)
    returns = one.episode.episode_return, other.episode.episode_return
    more = 1.0 if returns[0] == returns[1] else 0.0
    found[first] = replace(one, episode=replace(one.episode, episode_return=returns[1] + more))
    found[second] = replace(other, episode=replace(other.episode, episode_return=returns[0]))
    return found


def wrong(paths: RunPaths) -> list[str]:
    return [one.name for one in findings(paths.root) if not one.ok]


def test_a_score_without_a_hash_of_its_episodes(copy: RunPaths) -> None:
    """A run that was scored names the files of which its score was made."""
    forge(copy, changed(copy, RunFinished, evaluation_sha256=""))

    assert wrong(copy) == ["evaluation"]


@pytest.mark.parametrize("split", [Split.VALIDATION, Split.HELD_OUT])
def test_returns_that_the_hidden_episodes_do_not_have(copy: RunPaths, split: Split) -> None:
    """Returns in the journal are the sums of the rewards in the files, whose hash is as it was."""
    forge(copy, swapped(copy, split))

    assert wrong(copy) == ["evaluation"]


def test_rewards_exchanged_between_files(copy: RunPaths) -> None:
    """Episodes' files that were exchanged, and hashed anew, are not those of the journal."""
    selected = next(event for event in events(copy) if isinstance(event, CheckpointSelected))
    others = [path for path in (copy.evaluation / "validation").iterdir() if path.name != selected.checkpoint[:16]]
    theirs, own = others[0] / "ep_000", copy.hidden_episode(Split.VALIDATION, selected.checkpoint, 0)
    shutil.copytree(theirs, own, dirs_exist_ok=True)
    forge(copy, changed(copy, RunFinished, evaluation_sha256=feedback_sha256(copy.evaluation)))

    assert wrong(copy) == ["evaluation"]


def test_returns_that_the_agent_was_not_shown(copy: RunPaths) -> None:
    """Train returns in the journal are those of the feedback, whose hash is as it was."""
    forge(copy, swapped(copy, Split.TRAIN))

    assert wrong(copy) == ["feedback submit_000"]


def more_said(paths: RunPaths) -> None:
    with paths.transcript.open("a") as file:
        file.write("I never looked at the hidden cases.\n")


def no_requests(paths: RunPaths) -> None:
    (paths.logs / "model.jsonl").write_text("")


@pytest.fixture
def logged(run_copy: PlayedRun) -> RunPaths:
    """Return a copy of a real run with an agent's logs, whose closing entry names their hashes."""
    paths = run_copy.paths
    paths.transcript.write_text("I look at the feedback.\n")
    (paths.logs / "model.jsonl").write_text('{"input": 7}\n')
    hashes = {path.name: log_sha256(path, paths.root) for path in paths.agent_logs}
    forge(paths, changed(paths, RunFinished, logs_sha256=hashes))
    return paths


@pytest.mark.parametrize(("tamper", "named"), [(more_said, "agent.log"), (no_requests, "model.jsonl")])
def test_logs_that_were_changed(logged: RunPaths, tamper: Callable[[RunPaths], None], named: str) -> None:
    """What the agent said and asked of its model is as it was when the run ended."""
    before = wrong(logged)
    tamper(logged)

    assert [what for what in wrong(logged) if what not in before] == [named]


def test_a_log_that_was_left_out(logged: RunPaths) -> None:
    """A log may be left out of a record, which is said; one that was not there may not appear."""
    logged.transcript.unlink()
    found = {one.name: one for one in findings(logged.root)}
    assert found["agent.log"].ok
    assert found["agent.log"].detail

    forge(logged, changed(logged, RunFinished, logs_sha256={}))
    assert "model.jsonl" in wrong(logged)


def test_a_real_run_names_its_logs(played_run: PlayedRun) -> None:
    """A run that is played now is of today's schema, and its closing entry has a hash for each log that there is."""
    opened, *_, finished = events(played_run.paths)
    assert isinstance(opened, RunOpened)
    assert isinstance(finished, RunFinished)

    assert opened.schema_version == SCHEMA
    assert finished.logs_sha256.keys() == {one.name for one in played_run.paths.agent_logs if one.exists()}


def test_validation_that_moves_the_selection(run_copy: PlayedRun) -> None:
    """Forged validation returns are found by playing validation again; held-out of what they select is as recorded."""
    paths, before = run_copy.paths, read_run(run_copy.paths.root).state
    shutil.rmtree(paths.evaluation)  # left out, as in records that are published
    state = run_copy.state_home / "evopolicygym" / "experiments"
    shutil.rmtree(state / "marks")  # as where the secret was copied to
    (state / before.opened.experiment / LEDGER_FILE).unlink()
    assert before.selected
    other = next(name for name in before.checkpoints if name != before.selected.checkpoint)
    held_out = dict(_played_again(paths.root, other))

    def forged(event: Event) -> Event:
        match event:
            case EpisodePlayed(split=Split.VALIDATION, checkpoint=checkpoint, episode=episode) if checkpoint == other:
                return replace(event, episode=replace(episode, episode_return=episode.episode_return + 1e6))
            case EpisodePlayed(split=Split.HELD_OUT, position=position):
                return replace(event, checkpoint=other, episode=held_out[position])
        return event

    forge(paths, [forged(event) for event in events(paths)])
    after_it = read_run(paths.root).state.selected
    verified = evopolicygym.verify(paths.root, replay=True, workers=1)

    assert after_it
    assert after_it.checkpoint == other
    assert "replay" in verified.failed
    assert f"selects submission {before.selected.submit_index}," in verified.findings[-1].detail


def _played_again(root: Path, checkpoint: str) -> Iterator[tuple[int, Episode]]:
    """Yield what a checkpoint makes of the held-out cases."""
    with open_replay(root, ReplayOptions(1), any_versions=True) as run:
        yield from ((position, episode) for _, position, episode in run.hidden(Split.HELD_OUT, [checkpoint]))


@pytest.mark.parametrize("renamed", ["20260101-000000-0000", "x"])
def test_a_run_under_another_id(run_copy: PlayedRun, renamed: str) -> None:
    """Under another id there is no high-water mark; the experiment that began here lists no run of that id."""
    opened, *rest = events(run_copy.paths)
    assert isinstance(opened, RunOpened)
    before = wrong(run_copy.paths)
    forge(run_copy.paths, [replace(opened, run_id=renamed), *rest])

    assert (before, wrong(run_copy.paths)) == ([], [FINDING])


def test_a_run_from_before_runs_were_listed(run_copy: PlayedRun) -> None:
    """Where runs are listed since later, or not at all, nothing is held against a run without a mark."""
    opened, *rest = events(run_copy.paths)
    assert isinstance(opened, RunOpened)
    file = run_copy.state_home / "evopolicygym" / "experiments" / opened.experiment / LEDGER_FILE
    file.write_text('{"since": "2999-01-01T00:00:00.000Z"}\n')
    forge(run_copy.paths, [replace(opened, run_id="x"), *rest])
    since_later = wrong(run_copy.paths)
    file.unlink()

    assert since_later == wrong(run_copy.paths) == []
