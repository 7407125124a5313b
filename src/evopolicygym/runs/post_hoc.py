"""Plays the held-out cases with the checkpoints that were not selected, after the score and outside of it.

What was played is kept checkpoint by checkpoint, so that an interruption costs one of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from evopolicygym.core.cases import Split
from evopolicygym.core.event import PostHocPlayed
from evopolicygym.core.rollout import Failure
from evopolicygym.core.run import RunState
from evopolicygym.core.text import now
from evopolicygym.records.post_hoc import PostHoc, post_hoc_sha256, read_post_hoc, write_post_hoc
from evopolicygym.records.reader import read_run
from evopolicygym.records.rollback_guard import guard_of, is_marked
from evopolicygym.records.writer import RunWriter
from evopolicygym.runs.revisit import ReplayMeans, revisited


def due(root: Path) -> tuple[str, ...]:
    """Return the checkpoints of a run whose held-out returns are not known yet, in the order of submissions."""
    record = read_run(root)
    return _due(record.state, read_post_hoc(record.paths) or {})


@dataclass(frozen=True, slots=True)
class Played:
    """What was played of one run."""

    checkpoints: int = 0
    isolation: str = ""
    """The level at which it was played; empty where nothing was."""


def play_post_hoc(root: Path, played: Callable[[], object], means: ReplayMeans = ReplayMeans()) -> Played:  # noqa: B008 - it is frozen
    """Play what is due of a run and return what that was; ``played`` is called after each episode.

    Raises what ``revisited`` raises, ``RecordError`` where another process plays on this run; a run of which nothing is
    due is left as it is.
    """
    if not due(root):
        return Played()
    opened = read_run(root).state.opened
    guard = guard_of(opened) if is_marked(root) else None
    with revisited(root, means) as run, RunWriter(root.resolve(), guard=guard) as writer:
        paths, state = run.record.paths, run.record.state
        known = dict(read_post_hoc(paths) or {})
        missing = _due(state, known)
        for checkpoint in missing:
            returns: dict[int, float] = {}
            failures: dict[int, Failure] = {}
            for position, episode in run.hidden(Split.HELD_OUT, checkpoint):
                returns[position] = episode.episode_return
                if episode.failure:
                    failures[position] = episode.failure
                played()
            known[checkpoint] = PostHoc(tuple(returns[position] for position in sorted(returns)), failures)
            # Before the file: who is killed in between plays it again.
            writer.record(PostHocPlayed(now(), checkpoint, post_hoc_sha256(known[checkpoint])))
            write_post_hoc(paths, known)
        return Played(len(missing), run.isolation)


def _due(state: RunState, known: dict[str, PostHoc]) -> tuple[str, ...]:
    if state.selected is None:
        return ()
    return tuple(name for name in state.checkpoints if name != state.selected.checkpoint and name not in known)
