"""Plays a finished run's held-out cases again and compares every one."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from evopolicygym.core.cases import Split
from evopolicygym.core.episode import Episode
from evopolicygym.runs.revisit import Means, revisited


@dataclass(frozen=True, slots=True)
class Replayed:
    """One held-out case, as recorded and as it played now."""

    position: int
    recorded: Episode
    again: Episode
    isolation: str
    """The level at which it played now."""
    other_versions: tuple[str, ...] = ()
    """How versions here differ from the run's, in words: no hindrance where both are the same all the same."""

    @property
    def same(self) -> bool:
        """Whether both are the same, bit for bit."""
        return (self.recorded.trajectory_sha256, self.recorded.episode_return) == (
            self.again.trajectory_sha256,
            self.again.episode_return,
        )


def replay(root: Path, means: Means = Means()) -> Iterator[Replayed]:  # noqa: B008 - it is frozen
    """Yield every held-out case of a run's selected checkpoint, played again; in any order.

    Raises what ``revisited`` raises.
    """
    with revisited(root, means, any_versions=True) as run:
        state = run.record.state
        checkpoint = state.selected.checkpoint if state.selected else ""
        recorded = state.rollout(Split.HELD_OUT, checkpoint).episodes
        for position, again in run.held_out(checkpoint):
            then = recorded[position]
            if then is not None:
                yield Replayed(position, then, again, run.isolation, run.other_versions)
