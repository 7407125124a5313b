"""The course of a run: what each submission had cost by then, what it was worth, and whether it was the best so far.

Worth is the mean over the hidden validation cases; a mean that is no number is worth nothing.
"""

from dataclasses import dataclass

from evopolicygym.core.cases import Split
from evopolicygym.core.run import RunState, SubmissionState
from evopolicygym.core.score import Estimate, best_so_far, estimate
from evopolicygym.core.submission import SubmissionStatus


@dataclass(frozen=True, slots=True)
class Milestone:
    """One submission, and where the run stood after it."""

    submission: SubmissionState
    spent: int
    """Episodes charged up to and with it."""
    validation: Estimate | None
    """None where it is no candidate, or its validation is not complete."""
    best: float | None
    """The best validation mean up to and with it; None where there is none yet."""
    is_new_best: bool | None
    """Whether it is better than all before; None where that is not known yet."""


def submission_history(state: RunState) -> tuple[Milestone, ...]:
    """Return where a run stood after each of its submissions."""
    validations = [validation_of(state, submission) for submission in state.submissions]
    bests = best_so_far(one.mean if one else None for one in validations)
    found: list[Milestone] = []
    for submission, validation, best in zip(state.submissions, validations, bests, strict=True):
        is_new: bool | None = best != (found[-1].best if found else None)
        if validation is None and submission.status in {SubmissionStatus.OK, SubmissionStatus.INTERRUPTED}:
            is_new = None
        spent = submission.first_global_episode + len(submission.episodes)
        found.append(Milestone(submission, spent, validation, best, is_new))
    return tuple(found)


def validation_of(state: RunState, submission: SubmissionState) -> Estimate | None:
    """Return a candidate's validation; None where it is no candidate or has not played all its cases."""
    if submission.status is not SubmissionStatus.OK:
        return None
    rollout = state.rollout(Split.VALIDATION, submission.charged.checkpoint)
    return None if rollout.missing else estimate(rollout.returns)
