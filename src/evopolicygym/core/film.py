"""Films of episodes, as data: properties of the pictures, and whether they show the recorded episode."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from evopolicygym.core.cases import Split


@dataclass(frozen=True, slots=True)
class Sheet:
    """A contact sheet: some of a film's frames on one picture, in reading order, each with its step."""

    columns: int
    rows: int
    tile_width: int
    tile_height: int
    steps: tuple[int, ...]
    """The number of steps played before each tile; 0 is the reset."""


@dataclass(frozen=True, slots=True)
class Shot:
    """The result of filming an episode by replaying its actions."""

    frames: int
    """Frame k shows the state after step ``min(k * steps_per_frame, length)``; frame 0 the reset."""
    steps_per_frame: int
    fps: float
    """Frames per second: frame k is shown from ``k / fps`` seconds on."""
    width: int
    height: int
    length: int
    """The number of steps."""
    episode_return: float
    trajectory_sha256: str
    """As in ``core.rollout.Episode``, computed while filming."""
    sheet: Sheet | None = None


@dataclass(frozen=True, slots=True)
class RecordedEpisode:
    """An episode as the event log records it."""

    length: int
    episode_return: float
    trajectory_sha256: str


@dataclass(frozen=True, slots=True)
class Film:
    """A film, and the episode that it should show."""

    split: Split
    submit_index: int
    checkpoint: str
    case: int
    """The position among a submission's train episodes, or the index in a hidden split."""
    shot: Shot
    recorded: RecordedEpisode | None
    """None for an episode that the run did not play, such as a held-out case of a checkpoint that was not selected."""
    same: bool | None
    """Whether the film shows the recorded episode bit for bit; None if nothing was recorded."""
    played_again: bool
    """Whether the policy chose the actions again, because they were not recorded."""
    doubt: str = ""
    """What may explain a difference: versions that differ from the run's."""


class NoFilm(StrEnum):
    """Why a requested film is missing. Agents get no details, as errors of renderers contain paths of the host."""

    NO_CAMERA = "this machine can't film: a renderer or a package for it is missing"
    FAILED = "the renderer failed"
    TOO_LONG = "it took too long to draw"
    ANOTHER_EPISODE = "played again before the camera, the episode went another way"


@dataclass(frozen=True, slots=True)
class FilmJob:
    """A recorded episode to film. Contains a seed, so it stays on the trusted side."""

    seed: int
    actions: Path
    """The episode's directory, in the format of ``records/trajectories.py``."""
    length: int
    """The number of recorded steps."""
    target: Path
    """The film's file."""
    sheet: Path
    """The contact sheet's file, a PNG."""
    world_seed: int = 0
    """As in ``core.rollout.EpisodeJob``."""


class Camera(Protocol):
    """Films episodes of one environment."""

    def film(self, job: FilmJob, advanced: Callable[[int], None]) -> Shot:
        """Film one episode; ``advanced`` is called with the number of steps drawn, and may raise to end the film.

        Raises ``UsageError`` if films can't be made here, and any exception of a renderer that fails.
        """
