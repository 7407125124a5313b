"""Verifying what checkpoints made of held-out after the end: the journal has its hash."""

import json
from dataclasses import replace

import pytest

from evopolicygym.core.errors import RecordError
from evopolicygym.core.event import PostHocPlayed, RunOpened
from evopolicygym.core.run import after
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import read_run
from evopolicygym.records.verify import findings
from evopolicygym.runs.replay import ReplayOptions, play_post_hoc
from fakes import TIME, whole_run
from played_runs import PlayedRun


@pytest.fixture
def played(run_copy: PlayedRun) -> RunPaths:
    """Return a copy of a real run whose other checkpoints were played post hoc."""
    play_post_hoc(run_copy.paths.root, lambda: None, ReplayOptions(1))
    return run_copy.paths


def wrong(paths: RunPaths) -> list[str]:
    return [found.name for found in findings(paths.root) if not found.ok]


def test_what_was_played_post_hoc_verifies(played: RunPaths) -> None:
    """The run's other checks hold as before, its mark too."""
    assert wrong(played) == []
    assert read_run(played.root).state.post_hoc.keys() == json.loads(played.post_hoc.read_bytes())["checkpoints"].keys()


def test_returns_that_were_changed(played: RunPaths) -> None:
    """A return that was not played is found, and so is a checkpoint's entry under another's name."""
    document = json.loads(played.post_hoc.read_bytes())
    next(iter(document["checkpoints"].values()))["returns"][0] += 1
    played.post_hoc.write_text(json.dumps(document))

    assert wrong(played) == ["post_hoc.json"]


def test_what_was_left_out_is_said(played: RunPaths) -> None:
    """All of it may be left out of a record, and that is said."""
    played.post_hoc.unlink()
    (found,) = (one for one in findings(played.root) if one.name == "post_hoc.json")

    assert found.ok
    assert found.detail.startswith("0 checkpoints")


def test_only_other_candidates_after_the_end() -> None:
    """Nothing else may follow the end of a run, and nothing of this kind come before."""
    state = None
    for event in whole_run():
        if (state is None) is False:
            with pytest.raises(RecordError):
                after(state, PostHocPlayed(TIME, "a", "0"))
        state = after(state, event)

    assert after(state, PostHocPlayed(TIME, "a", "0")).post_hoc == {"a": "0"}
    for name in ("b", "c"):  # the selected one, and none of this run's
        with pytest.raises(RecordError):
            after(state, PostHocPlayed(TIME, name, "0"))
    opened = whole_run()[0]
    assert isinstance(opened, RunOpened)
    with pytest.raises(RecordError):
        after(state, replace(opened))
