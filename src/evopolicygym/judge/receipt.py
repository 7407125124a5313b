"""What the endpoint says of submissions: how far each is, and at the end what its ``summary.json`` says.

It is answered from the record: what an agent has made of the files in its workspace changes no answer.
"""

from typing import Any

from evopolicygym.core import regular_file, strict_json
from evopolicygym.core.errors import RecordError
from evopolicygym.core.run import SubmissionState
from evopolicygym.core.score import estimate
from evopolicygym.core.submission import SubmissionStatus
from evopolicygym.core.text import printable
from evopolicygym.judge.feedback import said_with, summary
from evopolicygym.judge.session import JudgeSession
from evopolicygym.records.paths import SUMMARY, RunPaths

PLAYING = "playing"
"""A submission's status until its feedback is in place."""
MAX_SUMMARY = 1 << 24
"""Bytes of a ``summary.json`` that are read."""


def receipt(session: JudgeSession, index: int) -> dict[str, Any]:
    """Return what is shown of one submission; its summary is null until its feedback is in place."""
    submission = session.state.submissions[index]
    in_place = session.in_place(submission)
    return {
        **_status(submission, in_place=in_place),
        "progress": session.progress(submission),
        **said_with(submission.charged),
        "summary": _summary(session, submission) if in_place else None,
    }


def lines(session: JudgeSession) -> list[dict[str, Any]]:
    """Return what is shown of all submissions, a short line each."""
    return [_line(session, submission) for submission in session.state.submissions]


def _line(session: JudgeSession, submission: SubmissionState) -> dict[str, Any]:
    returns = submission.returns if submission.status is SubmissionStatus.OK else ()
    return {
        **_status(submission, in_place=session.in_place(submission)),
        "n_episodes": len(submission.episodes),
        "progress": session.progress(submission),
        "env_instances": list(submission.charged.env_instances),
        **said_with(submission.charged),
        "mean_return": estimate(returns).mean if returns else None,
    }


def _status(submission: SubmissionState, *, in_place: bool) -> dict[str, Any]:
    """Return its status and in how many episodes the policy failed: null until it is over, or where none was played."""
    played = in_place and submission.status is SubmissionStatus.OK
    return {
        "submit_id": submission.index,
        "status": submission.status.value if in_place else PLAYING,
        "failed_episodes": submission.failed if played else None,
        "trouble": printable(submission.trouble) or None if in_place else None,
    }


def _summary(session: JudgeSession, submission: SubmissionState) -> dict[str, Any]:
    assert submission.published is not None  # noqa: S101 - for the type checker; it is in place
    document = summary(session.state, submission, submission.published)
    if submission.charged.films and submission.status is SubmissionStatus.OK:
        document["films"] = _films(session.writer.paths, submission.index)
    return document


def _films(paths: RunPaths, index: int) -> object:
    """Return what the summary on disk says of films, as the journal doesn't; None where the agent has spoilt it."""
    try:
        return strict_json.decode(regular_file.read(paths.published(index) / SUMMARY, MAX_SUMMARY))["films"]
    except (OSError, RecordError, strict_json.NotStrict, TypeError, LookupError):
        return None
