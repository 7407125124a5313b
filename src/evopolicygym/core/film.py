"""A film of one episode, as data: what is known of the pictures, and whether they show what was recorded.

How one is made is not told here but in ``rollout/camera.py``, nor where it lies (``records/films.py``).
"""

from dataclasses import dataclass

from evopolicygym.core.cases import Split


@dataclass(frozen=True, slots=True)
class Shot:
    """What came of playing an episode's actions again before a camera."""

    frames: int
    """Frame k shows what step ``min(k * steps_per_frame, length)`` led to; frame 0 what the reset gave."""
    steps_per_frame: int
    fps: float
    width: int
    height: int
    length: int
    """Steps played."""
    episode_return: float
    trajectory_sha256: str
    """As in ``core.episode.Episode``, of what was seen while it was filmed."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """What the run's journal says of the episode."""

    length: int
    episode_return: float
    trajectory_sha256: str


@dataclass(frozen=True, slots=True)
class Film:
    """A film and the episode that it claims to show."""

    split: Split
    submit_index: int
    checkpoint: str
    case: int
    """The case's place: of a submission's train episodes, or in its hidden split."""
    shot: Shot
    recorded: Recorded | None
    """None for an episode that the run never played, such as a held-out case of a checkpoint that was not selected."""
    same: bool | None
    """Whether the film shows what was recorded, bit for bit; None where nothing was and it is true to its replay."""
    played_again: bool
    """Whether the policy chose the actions anew, as they were not recorded."""
    doubt: str = ""
    """What may explain a difference: the versions that are others here than the run's."""
