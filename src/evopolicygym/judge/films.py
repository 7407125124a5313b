"""Films that an agent asked for: made of what was just recorded, between the play of a submission and its publication.

A film that can't be made harms nobody: the feedback says why it is not there, and it costs none of the run's films.
Where the run dies meanwhile, whoever resumes it makes the submission's films anew.
Single frames of such a film are read from the feedback, if that is as it was published.
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
from evopolicygym.judge.rollouts import Rollouts, RolloutStopped
from evopolicygym.records.feedback import feedback_sha256
from evopolicygym.records.films import write_film
from evopolicygym.records.paths import EPISODES, FILM, SHEET, RunPaths, episode_name
from evopolicygym.rollout.films.encoding import stills
from evopolicygym.rollout.messages import NO_STORAGE

MOST_STILLS = 12
"""Frames that one request may name."""


def parse_stills(episode: str, steps: str) -> tuple[int, tuple[int, ...]]:
    """Return an episode's place in its submission, and the steps that a request names; raise ``RequestRefused``."""
    words = steps.split(",")
    if not all(word.isdecimal() and len(word) <= len("1000000") for word in (episode, *words)):
        raise _refused("frames are asked for as ?episode=0&steps=0,50,100: a place in the submission, and steps of it")
    if len(words) > MOST_STILLS:
        raise _refused(f"{len(words)} frames were asked for; one request may name {MOST_STILLS}")
    return int(episode), tuple(map(int, words))


def stills_of(paths: RunPaths, submission: SubmissionState, place: int, steps: Sequence[int]) -> Mapping[int, bytes]:
    """Return frames of a submission's film as PNG files, by their steps; raise ``RequestRefused``."""
    directory, published = paths.published_feedback(submission.index), submission.published
    episode = submission.first_global_episode + place
    film = directory / EPISODES / episode_name(episode) / FILM
    if published is None or place not in submission.charged.films or not film.is_file():
        raise _refused(f"submission {submission.index} has no film of its episode {place}")
    if feedback_sha256(directory) != published.feedback_sha256:
        raise _refused(f"the feedback of submission {submission.index} was changed since it was published")
    found = stills(film, steps)
    if missing := [step for step in steps if step not in found]:
        raise _refused(f"the film has no frame of step {missing[0]}")
    return found


def _refused(why: str) -> RequestRefused:
    return RequestRefused(RefusalStatus.INVALID_REQUEST, f"frames: {why}.")


FILM_S = 300.0
"""Seconds that one film may take: nobody waits for ever for feedback."""


@dataclass(frozen=True, slots=True)
class FilmReply:
    """What came of one film that was asked for."""

    place: int
    """The episode's, in its submission."""
    film: Film | None
    problem: NoFilm | None
    """Why there is none."""


class _Refused(Exception):
    def __init__(self, problem: NoFilm) -> None:
        super().__init__(problem.value)
        self.problem = problem


def make_films(rollouts: Rollouts, submission: SubmissionState) -> tuple[FilmReply, ...]:
    """Make the films that were requested beside their episodes in staging.

    Raise ``RolloutStopped`` where the run is stopped. The submission's episodes have all been played.
    """
    made = []
    for place in submission.charged.films:
        folder = _folder(rollouts, submission, place)
        _clear(folder)
        try:
            made.append(FilmReply(place, write_film(folder / FILM, _maker(rollouts, submission, place)), None))
        except (RolloutStopped, StorageError):
            raise
        except Exception as error:  # whatever a renderer or its libraries may raise
            if isinstance(error, OSError) and error.errno in NO_STORAGE:
                raise  # a disk that is full holds no feedback either: the run stops, to be resumed
            _clear(folder)
            _note(rollouts, submission, place, error)
            made.append(FilmReply(place, None, _problem(error)))
    return tuple(made)


def _maker(rollouts: Rollouts, submission: SubmissionState, place: int) -> Callable[[Path], Film]:
    case, folder = submission.charged.env_instances[place], _folder(rollouts, submission, place)
    recorded = _recorded(submission, place)

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
        return Film(Split.TRAIN, submission.index, checkpoint, place, shot, recorded, same=True, played_again=False)

    return make


def _recorded(submission: SubmissionState, place: int) -> RecordedEpisode:
    episode = submission.episodes[place]
    assert episode is not None  # noqa: S101 - for the type checker; all were played
    return RecordedEpisode(episode.length, episode.episode_return, episode.trajectory_sha256)


def _folder(rollouts: Rollouts, submission: SubmissionState, place: int) -> Path:
    name = episode_name(submission.first_global_episode + place)
    return rollouts.writer.paths.staged_feedback(submission.index) / EPISODES / name


def _clear(folder: Path) -> None:
    """Remove whatever was made of a film, by this process or by one that died over it."""
    for stray in folder.glob(f"{Path(FILM).stem}.*"):
        stray.unlink(missing_ok=True)


def _problem(error: Exception) -> NoFilm:
    if isinstance(error, _Refused):
        return error.problem
    return NoFilm.NO_CAMERA if isinstance(error, UsageError) else NoFilm.FAILED


def _note(rollouts: Rollouts, submission: SubmissionState, place: int, error: Exception) -> None:
    """Write into the log, for a person, what an agent is not shown, where it can be written."""
    log = rollouts.writer.paths.film_log
    with suppress(OSError):
        log.parent.mkdir(parents=True, exist_ok=True)
        with regular_file.appender(log) as file:
            line = f"submission {submission.index}, episode {place}: {type(error).__name__}: {error}\n"
            file.write(line.encode("utf-8", "replace"))


def film_notes(films: Sequence[FilmReply], submission: SubmissionState) -> list[dict[str, object]]:
    """Return what ``summary.json`` says of films, in the order that they were asked for."""
    return [_film_note(one, submission) for one in films]


def _film_note(one: FilmReply, submission: SubmissionState) -> dict[str, object]:
    folder = f"{EPISODES}/{episode_name(submission.first_global_episode + one.place)}"
    shot = one.film.shot if one.film else None
    sheet = shot.sheet if shot else None
    return {
        "env_instance": submission.charged.env_instances[one.place],
        "episode": one.place,
        "film": f"{folder}/{FILM}" if shot else None,
        "frames": shot.frames if shot else None,
        "steps_per_frame": shot.steps_per_frame if shot else None,
        "fps": shot.fps if shot else None,
        "sheet": f"{folder}/{SHEET}" if sheet else None,
        "sheet_steps": list(sheet.steps) if sheet else None,
        "problem": one.problem.value if one.problem else None,
    }
