"""Films of episodes as data: the properties of the pictures, and whether they show the recorded episode."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from evopolicygym.core.cases import Split


@dataclass(frozen=True, slots=True)
class Sheet:
    """A contact sheet: some frames of a film as tiles of a picture, in reading order."""

    columns: int
    rows: int
    tile_width: int
    tile_height: int
    steps: tuple[int, ...]
    """Number of steps played at each tile; 0 is the reset."""


@dataclass(frozen=True, slots=True)
class Shot:
    """The result of filming an episode, by playing its actions again."""

    frames: int
    """Frame k shows the state after step ``min(k * steps_per_frame, length)``; frame 0 the reset."""
    steps_per_frame: int
    fps: float
    """Frame k is shown from ``k / fps`` seconds on."""
    width: int
    height: int
    length: int
    """Steps played."""
    episode_return: float
    trajectory_sha256: str
    """As in ``core.rollout.Episode``, of the filmed episode."""
    sheet: Sheet | None = None


@dataclass(frozen=True, slots=True)
class RecordedEpisode:
    """The episode according to the run's event log."""

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
    """Index of the case: among a submission's train episodes, or in its hidden split."""
    shot: Shot
    recorded: RecordedEpisode | None
    """None for an episode that the run didn't play, such as a held-out case of a checkpoint that was not selected."""
    same: bool | None
    """Whether the film shows the recorded episode, bit for bit; None if it was not recorded."""
    played_again: bool
    """Whether the policy chose the actions again, since they were not recorded."""
    doubt: str = ""
    """A possible reason for a difference: versions that differ from the run's."""


class NoFilm(StrEnum):
    """Why an agent's film is missing. Agents get no more details, since renderers' messages have paths of the host."""

    NO_CAMERA = "this machine can't film: a renderer or a package for it is missing"
    FAILED = "the renderer failed"
    TOO_LONG = "it took too long to draw"
    ANOTHER_EPISODE = "played again before the camera, the episode went another way"


@dataclass(frozen=True, slots=True)
class FilmJob:
    """A recorded episode to be filmed. It contains a seed, so it never leaves the trusted side."""

    seed: int
    actions: Path
    """The episode's directory."""
    length: int
    """Number of recorded steps."""
    target: Path
    """Path of the film."""
    sheet: Path
    """Path of its contact sheet, a PNG."""


class Camera(Protocol):
    """Films episodes of one environment."""

    def film(self, job: FilmJob, advanced: Callable[[int], None]) -> Shot:
        """Film an episode; ``advanced`` is called with the number of steps drawn, and may raise to stop the film.

        Raises ``UsageError`` if nothing can be filmed here, and any exception of a failing renderer.
        """
