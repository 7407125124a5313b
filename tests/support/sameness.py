"""What must be the same of two records, whatever happened while they were made; and what is no part of either."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from evopolicygym.core.cases import Split
from evopolicygym.core.event import (
    AgentEnded,
    AgentStarted,
    EpisodePlayed,
    EpisodeRepeated,
    RunOpened,
    RunResumed,
    RunStopped,
)
from evopolicygym.core.run import RunState, Stage
from evopolicygym.records import verify
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import read_run
from evopolicygym.records.rollback_guard import Mark
from fakes import guard_beside
from whole_runs import events

NOTES = (RunOpened, RunResumed, RunStopped, AgentStarted, AgentEnded, EpisodeRepeated)
"""Events that a disturbance adds, or leaves out, as of an agent that was cut off with its budget spent; and the
opening, which holds the run's name."""
TIMES = {
    *("time", "wall_time_s", "wall_time_seconds", "submit_started_at", "submit_completed_at", "timestamp", "seconds"),
    "act_seconds",
}
"""What differs between any two runs."""
AFTER_TIMES = {"feedback_sha256"}
"""What depends on them."""
SUMMARIES = ("summary.json", "errors.txt")


def told(state: RunState) -> dict[str, object]:
    """Return what was submitted, selected, played and scored."""
    assert state.selected is not None
    assert state.finished is not None
    rollouts = [
        state.rollout(split, name)
        for split in (Split.VALIDATION, Split.HELD_OUT)
        for name in dict.fromkeys(one.charged.checkpoint for one in state.candidates)
    ]
    return {
        "submitted": [(one.charged.checkpoint, one.charged.env_instances, one.status) for one in state.submissions],
        "spent": state.spent,
        "selected": (state.selected.submit_index, state.selected.checkpoint, state.selected.validation_mean),
        "train": [one and one.trajectory_sha256 for each in state.submissions for one in each.episodes],
        "hidden": [one and (one.episode_return, one.trajectory_sha256) for each in rollouts for one in each.episodes],
        "score": (state.finished.score, state.finished.standard_error),
    }


def positions(paths: RunPaths) -> list[tuple[object, ...]]:
    """Return which episodes were recorded, in their order."""
    return [
        (event.split, event.checkpoint, event.submit_index, event.position)
        for event in events(paths)
        if isinstance(event, EpisodePlayed)
    ]


def history(paths: RunPaths) -> list[tuple[str, object]]:
    """Return all events, without their times and without what a disturbance adds."""
    return [(type(one).__name__, timeless(asdict(one))) for one in events(paths) if not isinstance(one, NOTES)]


def feedback(paths: RunPaths) -> dict[str, object]:
    """Return the mode and content of every file and directory that the agent was given, times aside."""
    return {str(path.relative_to(paths.feedback)): _told_of(path) for path in sorted(paths.feedback.rglob("*"))}


def assert_the_same(root: Path, undisturbed: Path, *, marked_beside: bool = True) -> None:
    """Compare all that a run is with one that nothing happened to; its mark lies beside it, or where its user's do."""
    paths, others = RunPaths(root), RunPaths(undisturbed)
    state = read_run(root).state

    assert state.stage is Stage.FINISHED
    assert told(read_run(undisturbed).state) == told(state)
    assert history(others) == history(paths)
    assert len(positions(paths)) == len(set(positions(paths)))
    assert feedback(others) == feedback(paths)
    assert [one for one in verify.findings(root) if not one.ok] == []
    assert strays(root) == []
    if marked_beside:
        assert guard_beside(root).read() == Mark(len(events(paths)), read_run(root).hashes[-1], state.spent)


def strays(root: Path) -> list[Path]:
    """Return what should not be left in a record that is finished."""
    names = ("*.part", "*.tmp", ".taking-*")
    return [*RunPaths(root).staging.iterdir(), *(path for name in names for path in root.rglob(name))]


def timeless(value: Any) -> Any:
    """Return a JSON value without the times in it."""
    match value:
        case dict():
            return {name: timeless(one) for name, one in value.items() if name not in TIMES | AFTER_TIMES}
        case list() | tuple():
            return [timeless(one) for one in value]
        case _:
            return value


def _told_of(path: Path) -> tuple[int, object]:
    mode = path.stat().st_mode & 0o777
    if path.is_dir():
        return mode, None
    return mode, timeless(json.loads(path.read_bytes())) if path.name in SUMMARIES else path.read_bytes()
