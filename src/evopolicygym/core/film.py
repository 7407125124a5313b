"""A film of one episode, as data: what is known of the pictures, and whether they show what was recorded.

How one is made is described in ``rollout/films/camera.py``, nor where it lies (``records/films.py``).
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from evopolicygym.core.cases import Split


@dataclass(frozen=True, slots=True)
class Sheet:
    """Some of a film's frames side by side on one picture, in reading order, each with its step's number."""

    columns: int
    rows: int
    tile_width: int
    tile_height: int
    steps: tuple[int, ...]
    """How many steps had been played where each tile was drawn; 0 shows what the reset gave."""


@dataclass(frozen=True, slots=True)
class Shot:
    """What came of playing an episode's actions again before a camera."""

    frames: int
    """Frame k shows what step ``min(k * steps_per_frame, length)`` led to; frame 0 what the reset gave."""
    steps_per_frame: int
    fps: float
    """As it is written: frame k is shown from ``k / fps`` seconds on."""
    width: int
    height: int
    length: int
    """Steps played."""
    episode_return: float
    trajectory_sha256: str
    """As in ``core.rollout.Episode``, of what was seen while it was filmed."""
    sheet: Sheet | None = None


@dataclass(frozen=True, slots=True)
class RecordedEpisode:
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
    recorded: RecordedEpisode | None
    """None for an episode that the run never played, such as a held-out case of a checkpoint that was not selected."""
    same: bool | None
    """Whether the film shows what was recorded, bit for bit; None where nothing was and it is true to its replay."""
    played_again: bool
    """Whether the policy chose the actions anew, as they were not recorded."""
    doubt: str = ""
    """What may explain a difference: the versions that are others here than the run's."""


class NoFilm(StrEnum):
    """Why an agent's film is not there. It is given no more reason: what a renderer says holds paths of the host."""

    NO_CAMERA = "this machine can't film: a renderer or a package for it is missing"
    FAILED = "the renderer failed"
    TOO_LONG = "it took too long to draw"
    ANOTHER_EPISODE = "played again before the camera, the episode went another way"


@dataclass(frozen=True, slots=True)
class FilmJob:
    """One recorded episode that is to be filmed. Holds a seed, so it never leaves the trusted side."""

    seed: int
    actions: Path
    """The episode's directory, as ``records/trajectories.py`` writes it."""
    length: int
    """Steps that were recorded."""
    target: Path
    """Where the film is written."""
    sheet: Path
    """Where its contact sheet is written, as a PNG."""
    world_seed: int = 0
    """As in ``core.rollout.EpisodeJob``."""


class Camera(Protocol):
    """Films episodes of one environment."""

    def film(self, job: FilmJob, advanced: Callable[[int], None]) -> Shot:
        """Film one episode; ``advanced`` is passed how many steps were drawn, and what it raises ends the film.

        Raises ``UsageError`` where nothing can be filmed here, and whatever else comes of a renderer that fails.
        """
