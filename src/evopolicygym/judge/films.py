"""Films that an agent requested, drawn from recorded episodes before a submission's feedback is published.

If a film can't be made, the feedback says why and the film isn't charged. If the run dies meanwhile, resuming it makes
the submission's films anew. Single frames are read from the published feedback if it is unchanged.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from evopolicygym.core import regular_file
from evopolicygym.core.cases import Split
from evopolicygym.core.errors import RefusalStatus, RequestRefused, StorageError, UsageError
from evopolicygym.core.film import Film, FilmJob, NoFilm, RecordedEpisode
from evopolicygym.core.run import SubmissionState
from evopolicygym.core.storage import NO_STORAGE
from evopolicygym.judge.rollouts import Rollouts, RolloutStopped
from evopolicygym.records.feedback import feedback_sha256
from evopolicygym.records.films import write_film
from evopolicygym.records.paths import EPISODES, FILM, SHEET, RunPaths, episode_name
from evopolicygym.rollout.films.encoding import stills

MOST_STILLS = 12
"""The limit on frames of one request."""


def parse_stills(episode: str, steps: str) -> tuple[int, tuple[int, ...]]:
    """Return an episode's position in its submission and the requested steps; raise ``RequestRefused``."""
    words = steps.split(",")
    if not all(word.isdecimal() and len(word) <= len("1000000") for word in (episode, *words)):
        raise _refused("expected ?episode=0&steps=0,50,100: a position in the submission, and steps of that episode")
    if len(words) > MOST_STILLS:
        raise _refused(f"expected at most {MOST_STILLS} frames, got {len(words)}")
    return int(episode), tuple(map(int, words))


def stills_of(paths: RunPaths, submission: SubmissionState, position: int, steps: Sequence[int]) -> Mapping[int, bytes]:
    """Return frames of an episode's film as PNG files, keyed by step; raise ``RequestRefused``."""
    directory, published = paths.published_feedback(submission.index), submission.published
    episode = submission.first_global_episode + position
    film = directory / EPISODES / episode_name(episode) / FILM
    if published is None or position not in submission.charged.films or not film.is_file():
        raise _refused(f"submission {submission.index} has no film of its episode {position}")
    if feedback_sha256(directory) != published.feedback_sha256:
        raise _refused(f"the feedback of submission {submission.index} was changed since it was published")
    frames = stills(film, steps)
    if missing := [step for step in steps if step not in frames]:
        raise _refused(f"the film has no frame of step {missing[0]}")
    return frames


def _refused(why: str) -> RequestRefused:
    return RequestRefused(RefusalStatus.INVALID_REQUEST, f"frames: {why}.")


FILM_S = 300.0
"""The limit on seconds for one film."""


@dataclass(frozen=True, slots=True)
class FilmReply:
    """A requested film, or why there is none."""

    place: int
    """The episode's position in its submission."""
    film: Film | None
    problem: NoFilm | None
    """Why there is none."""


class _Refused(Exception):
    def __init__(self, problem: NoFilm) -> None:
        super().__init__(problem.value)
        self.problem = problem


def make_films(rollouts: Rollouts, submission: SubmissionState) -> tuple[FilmReply, ...]:
    """Make a submission's films in its staged feedback, after all of its episodes were played.

    Raises ``RolloutStopped`` if the run is stopped.
    """
    made = []
    for position in submission.charged.films:
        folder = _folder(rollouts, submission, position)
        _clear(folder)
        try:
            made.append(FilmReply(position, write_film(folder / FILM, _maker(rollouts, submission, position)), None))
        except (RolloutStopped, StorageError):
            raise
        except Exception as error:  # whatever a renderer or its libraries may raise
            if isinstance(error, OSError) and error.errno in NO_STORAGE:
                raise  # a full disk can't store feedback either, so the run stops and can be resumed
            _clear(folder)
            _note(rollouts, submission, position, error)
            made.append(FilmReply(position, None, _problem(error)))
    return tuple(made)


def _maker(rollouts: Rollouts, submission: SubmissionState, position: int) -> Callable[[Path], Film]:
    case, folder = submission.charged.env_instances[position], _folder(rollouts, submission, position)
    recorded = _recorded(submission, position)

    def make(target: Path) -> Film:
        if rollouts.camera is None:
            raise _Refused(NoFilm.NO_CAMERA)
        deadline = monotonic() + FILM_S

        def advanced(_steps: int) -> None:
            if rollouts.stop.is_set():
                raise RolloutStopped("The run was stopped; resume it to go on.")
            if monotonic() > deadline:
                raise _Refused(NoFilm.TOO_LONG)

        dealt = rollouts.job_builder
        seed = dealt.cases.seed(Split.TRAIN, case)
        job = FilmJob(seed, folder, recorded.length, target, folder / SHEET, dealt.world_seed)
        shot = rollouts.camera.film(job, advanced)
        if (shot.trajectory_sha256, shot.episode_return) != (recorded.trajectory_sha256, recorded.episode_return):
            raise _Refused(NoFilm.ANOTHER_EPISODE)
        checkpoint = submission.charged.checkpoint
        return Film(Split.TRAIN, submission.index, checkpoint, position, shot, recorded, same=True, played_again=False)

    return make


def _recorded(submission: SubmissionState, position: int) -> RecordedEpisode:
    episode = submission.episodes[position]
    assert episode is not None  # noqa: S101 - for the type checker; all were played
    return RecordedEpisode(episode.length, episode.episode_return, episode.trajectory_sha256)


def _folder(rollouts: Rollouts, submission: SubmissionState, position: int) -> Path:
    name = episode_name(submission.first_global_episode + position)
    return rollouts.writer.paths.staged_feedback(submission.index) / EPISODES / name


def _clear(folder: Path) -> None:
    """Remove files of an unfinished film."""
    for stray in folder.glob(f"{Path(FILM).stem}.*"):
        stray.unlink(missing_ok=True)


def _problem(error: Exception) -> NoFilm:
    if isinstance(error, _Refused):
        return error.problem
    return NoFilm.NO_CAMERA if isinstance(error, UsageError) else NoFilm.FAILED


def _note(rollouts: Rollouts, submission: SubmissionState, position: int, error: Exception) -> None:
    """Log an error that agents are not shown, if the log can be written."""
    log = rollouts.writer.paths.film_log
    with suppress(OSError):
        log.parent.mkdir(parents=True, exist_ok=True)
        with regular_file.appender(log) as file:
            line = f"submission {submission.index}, episode {position}: {type(error).__name__}: {error}\n"
            file.write(line.encode("utf-8", "replace"))


def film_notes(films: Sequence[FilmReply], submission: SubmissionState) -> list[dict[str, object]]:
    """Return the films in ``summary.json``, in the order of the request."""
    return [_film_note(film, submission) for film in films]


def _film_note(film: FilmReply, submission: SubmissionState) -> dict[str, object]:
    folder = f"{EPISODES}/{episode_name(submission.first_global_episode + film.place)}"
    shot = film.film.shot if film.film else None
    sheet = shot.sheet if shot else None
    return {
        "env_instance": submission.charged.env_instances[film.place],
        "episode": film.place,
        "film": f"{folder}/{FILM}" if shot else None,
        "frames": shot.frames if shot else None,
        "steps_per_frame": shot.steps_per_frame if shot else None,
        "fps": shot.fps if shot else None,
        "sheet": f"{folder}/{SHEET}" if sheet else None,
        "sheet_steps": list(sheet.steps) if sheet else None,
        "problem": film.problem.value if film.problem else None,
    }
