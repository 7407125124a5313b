"""Held-out returns of the checkpoints that were not selected, played after the score."""

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evopolicygym.analysis.diagnostics import generalisation
from evopolicygym.cli.main import app
from evopolicygym.core.errors import RecordError, UsageError
from evopolicygym.core.rollout import Failure, FailureReason
from evopolicygym.core.score import estimate
from evopolicygym.records import verify
from evopolicygym.records.atomic import lock_file
from evopolicygym.records.post_hoc import PostHoc, read_post_hoc, write_post_hoc
from evopolicygym.records.reader import read_run
from evopolicygym.runs.replay import ReplayOptions, missing_post_hoc, play_post_hoc
from played_runs import PlayedRun
from whole_runs import HELD_OUT, config, played


@pytest.fixture
def run(run_copy: PlayedRun) -> PlayedRun:
    """Return a run of five submissions: bad, good, good again, its equal, broken."""
    return run_copy


def test_every_other_candidate_is_played(run: PlayedRun) -> None:
    """Each checkpoint but the selected one plays every held-out case once; score and record stay as they are."""
    root, document = run.paths.root, run.paths.document.read_bytes()
    asked, episodes = missing_post_hoc(root), []
    count = play_post_hoc(root, lambda: episodes.append(1), ReplayOptions(2)).checkpoints
    known = read_post_hoc(run.paths)
    found = generalisation.measure(read_run(root))

    assert known is not None
    assert (count, len(episodes)) == (len(asked), len(asked) * HELD_OUT)
    assert set(known) == set(asked)
    assert run.state.selected is not None
    assert {one.charged.checkpoint for one in run.state.candidates} == {*asked, run.state.selected.checkpoint}
    assert all(len(one.returns) == HELD_OUT for one in known.values())
    assert found.best_other == max(estimate(one.returns).mean for one in known.values())
    assert run.paths.document.read_bytes() == document
    assert [one.name for one in verify.findings(root) if not one.ok] == []
    assert missing_post_hoc(root) == ()


def test_what_is_known_is_not_played_again(run: PlayedRun) -> None:
    """A second call, as after an interruption, plays only the checkpoints that are still due."""
    first, *others = missing_post_hoc(run.paths.root)
    known = PostHoc((0.5,) * HELD_OUT, {})
    write_post_hoc(run.paths, {first: known})

    assert play_post_hoc(run.paths.root, lambda: None, ReplayOptions(1)).checkpoints == len(others)
    assert (read_post_hoc(run.paths) or {})[first] == known
    assert play_post_hoc(run.paths.root, lambda: None, ReplayOptions(1)).checkpoints == 0


def test_failures_are_kept(tmp_path: Path) -> None:
    """Beside each return stands why and when the policy failed, and the diagnostic counts that."""
    run = played(config(tmp_path / "runs", "players:make_faller", budget=4))
    play_post_hoc(run.paths.root, lambda: None, ReplayOptions(1))
    (known,) = (read_post_hoc(run.paths) or {}).values()
    failed = Failure(FailureReason.ERROR, "ValueError: tired", step=0)

    assert known.failures == dict.fromkeys(range(HELD_OUT), failed)
    found = generalisation.measure(read_run(run.paths.root)).checkpoints
    assert [one.held_out_failed for one in found] == [0, HELD_OUT]


def test_one_at_a_time(run: PlayedRun) -> None:
    """While another process plays on a run, a second is refused before it plays anything."""
    with (
        os.fdopen(lock_file(run.paths.lock, "the first"), "rb"),
        pytest.raises(RecordError),
    ):
        play_post_hoc(run.paths.root, lambda: pytest.fail("an episode was played"), ReplayOptions(1))
    assert read_post_hoc(run.paths) is None


def test_the_verb(run: PlayedRun) -> None:
    """It takes a directory of runs, and says how many checkpoints of each were played."""
    asked = len(missing_post_hoc(run.paths.root))
    told = CliRunner().invoke(app, ["post-hoc", str(run.paths.root.parent), "--json"])

    assert told.exit_code == 0, told.output
    assert [one["checkpoints_played"] for one in json.loads(told.stdout)["runs"]] == [asked]


def test_a_run_that_is_not_over(run: PlayedRun) -> None:
    """Held-out cases of a run that goes on are played for nobody."""
    lines = run.paths.journal.read_bytes().splitlines(keepends=True)
    selected = next(place for place, line in enumerate(lines) if b"checkpoint_selected" in line)
    run.paths.journal.write_bytes(b"".join(lines[: selected + 1]))

    with pytest.raises(UsageError, match="selected"):
        play_post_hoc(run.paths.root, lambda: None)
    assert read_post_hoc(run.paths) is None
