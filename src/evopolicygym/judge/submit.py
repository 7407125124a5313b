"""A submission's life: charge, load, play, film what was asked for, publish.

Nothing of the agent's runs before the charge is on disk, and everything after the charge costs its full number of
episodes. Each step is recorded before it is acted on, so that a submission interrupted anywhere can be played on.
"""

import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from time import monotonic

from evopolicygym.core.cases import Split
from evopolicygym.core.errors import RefusalStatus, RequestRefused
from evopolicygym.core.event import SubmissionCharged, SubmissionPublished
from evopolicygym.core.rollout import EpisodeJob
from evopolicygym.core.run import SubmissionState
from evopolicygym.core.submission import LoadError, Setting, SubmissionStatus
from evopolicygym.core.text import now
from evopolicygym.judge import feedback
from evopolicygym.judge.films import FilmReply, make_films
from evopolicygym.judge.request import SubmitRequest
from evopolicygym.judge.rollouts import Rollouts
from evopolicygym.records import durable
from evopolicygym.records.checkpoints import TAKING
from evopolicygym.records.feedback import publish
from evopolicygym.records.paths import EPISODES, episode_name
from evopolicygym.records.writer import RunWriter

Capture = Callable[[Mapping[str, Setting]], str]
"""Takes a checkpoint of the workspace, with some parameters of the policy set, and returns its name.

Raises ``RequestRefused`` where it can't be taken.
"""


@dataclass(frozen=True, slots=True)
class Charge:
    """What is charged, once all of it has been checked."""

    indices: tuple[int, ...]
    films: tuple[int, ...]
    parent: int | None


def charge(writer: RunWriter, due: Charge, checkpoint: str, request: SubmitRequest) -> SubmissionState:
    """Charge a submission, durably; where that can't be written, nothing is charged and no episode starts.

    Raises ``StorageError`` where the charge is written and the run's high-water mark isn't: nobody may act on it.
    """
    index = len(writer.state.submissions)
    charged = SubmissionCharged(
        time=now(),
        submit_index=index,
        checkpoint=checkpoint,
        env_instances=due.indices,
        key=request.key,
        films=due.films,
        settings=dict(request.settings),
        parent=due.parent,
        hypothesis=request.hypothesis,
    )
    try:
        state = writer.record(charged)
    except OSError as error:
        raise not_stored() from error
    return state.submissions[index]


def forget(writer: RunWriter, checkpoint: str) -> None:
    """Remove a checkpoint that was taken and not charged, unless a submission has it: refusals fill no disk."""
    if all(one.charged.checkpoint != checkpoint for one in writer.state.submissions):
        place = writer.paths.checkpoint(checkpoint)
        going = place.with_name(f"{TAKING}{checkpoint}")  # half of it must not stand under the name of the whole
        with suppress(OSError):
            durable.rename(place, going)
        shutil.rmtree(going, ignore_errors=True)


def not_stored() -> RequestRefused:
    """Return the refusal of what can't be written, such as on a disk that is full."""
    message = "The request can't be stored now; nothing was charged. Ask again later."
    return RequestRefused(RefusalStatus.UNAVAILABLE, message, 503)


def play(rollouts: Rollouts, submission: SubmissionState) -> None:
    """Load the policy, play every episode that is missing, film what was asked for, and publish the feedback."""
    began = monotonic()
    context = rollouts.writer.state.context(submission)
    checkpoint = submission.charged.checkpoint
    error = None
    if len(submission.missing) == len(submission.episodes):
        # Of an attempt that was interrupted: nothing of it is in the record, and nothing of it is reported.
        shutil.rmtree(rollouts.writer.paths.staged(submission.index), ignore_errors=True)
        error = rollouts.executor.load(rollouts.writer.paths.checkpoint(checkpoint), context)
    if error is None:
        rollouts.play(Split.TRAIN, checkpoint, context, _jobs(rollouts, submission), submission)
    seconds = monotonic() - began
    films = make_films(rollouts, rollouts.writer.state.submissions[submission.index]) if error is None else ()
    _publish(rollouts.writer, submission.index, error, seconds, films)


def _jobs(rollouts: Rollouts, submission: SubmissionState) -> list[EpisodeJob]:
    state = rollouts.writer.state
    episodes = rollouts.writer.paths.staged(submission.index) / EPISODES
    episodes.mkdir(parents=True, exist_ok=True)
    recording = feedback.recording(state.opened.task.feedback)
    return [
        rollouts.dealer.job(
            Split.TRAIN,
            submission.charged.env_instances[local],
            local,
            episodes / episode_name(submission.first_global_episode + local),
            recording,
        )
        for local in submission.missing
    ]


def _publish(
    writer: RunWriter, index: int, error: LoadError | None, seconds: float, films: tuple[FilmReply, ...]
) -> None:
    """Write the summary, record that the feedback is complete, and only then put it where the agent reads it."""
    status = error.status if error else SubmissionStatus.OK
    filmed = sum(one.film is not None for one in films)
    published = SubmissionPublished(now(), index, status, "", round(seconds, 3), error, filmed)
    feedback.write_summary(writer.paths, writer.state, index, published, films)
    writer.record(replace(published, feedback_sha256=writer.sealed(writer.paths.staged(index))))
    publish(writer.paths, index)
