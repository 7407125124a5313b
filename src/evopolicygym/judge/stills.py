"""Single frames of an episode that was filmed for the agent: read from its feedback, if that is as it was published."""

from collections.abc import Mapping, Sequence

from evopolicygym.core.errors import RefusalStatus, RequestRefused
from evopolicygym.core.run import SubmissionState
from evopolicygym.records.feedback import feedback_sha256
from evopolicygym.records.paths import EPISODES, FILM, RunPaths, episode_name
from evopolicygym.rollout.films.encoding import stills

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
    directory, published = paths.published(submission.index), submission.published
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
