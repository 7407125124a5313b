"""The scores of a single run: its scale, its comparison with anchors and published entries, and its course.

The worth of a submission is its mean over the hidden validation cases; a mean that is not a number is worth nothing.
"""

from dataclasses import dataclass

from evopolicygym.analysis.published.score_tables import paper
from evopolicygym.core.run import RunState, SubmissionState
from evopolicygym.core.score import Estimate, best_so_far, normalised
from evopolicygym.core.submission import SubmissionStatus
from evopolicygym.core.task import EnvironmentSpec
from evopolicygym.specs.measured_anchors import with_anchors
from evopolicygym.specs.pack_catalog import is_shipped


@dataclass(frozen=True, slots=True)
class Scale:
    """The two ends of an environment's scale."""

    random: float
    best: float

    def value(self, score: float) -> float:
        """Return the position of a return on the scale, clipped to [0, 1]."""
        return normalised(score, self.random, self.best)


def scale_of(environment: EnvironmentSpec) -> Scale | None:
    """Return an environment's scale; None if its random anchor or a published score is not known."""
    published, environment = paper().scores_on(environment), with_anchors(environment)
    if environment.random_anchor is None or not published:
        return None
    return Scale(environment.random_anchor.mean, max(published.values()))


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the comparison."""

    name: str
    mean: float
    standard_error: float | None
    """None if it was not published."""
    origin: str
    """The source of the number."""
    is_run: bool = False


def compare(state: RunState) -> list[Row]:
    """Return this run's score, the anchors and the paper's entries where it has its environment, the best first."""
    held_out, opened = state.held_out(), state.opened
    environment = with_anchors(opened.task.environment)
    whose = "ours" if is_shipped(environment) else "its file's"
    anchors = {
        f"random anchor ({whose})": (environment.random_anchor, "public cases"),
        f"idle anchor ({whose})": (environment.idle_anchor, "public cases"),
        f"ending early ({whose})": (environment.degenerate_anchor, "public cases"),
        f"reference policy ({whose})": (environment.reference_anchor, "cases of results/references"),
    }
    here = f"held-out cases, in the world {environment.world.name}" if environment.world else ""
    rows = [
        Row(name, anchor.mean, anchor.standard_error, f"{anchor.episodes} {here or cases}")
        for name, (anchor, cases) in anchors.items()
        if anchor
    ]
    rows += [Row(name, mean, None, paper().source) for name, mean in paper().scores_on(environment).items()]
    if held_out:
        cases = f"{held_out.count} held-out cases" + (f", {opened.split} split" if environment.is_known else "")
        rows.append(Row(f"this run ({opened.agent.entry})", held_out.mean, held_out.standard_error, cases, is_run=True))
    return sorted(rows, key=lambda row: -row.mean)


@dataclass(frozen=True, slots=True)
class SubmissionProgress:
    """A submission, and the state of the run after it."""

    submission: SubmissionState
    spent: int
    """Episodes charged up to and with it."""
    validation: Estimate | None
    """None if it is not a candidate, or its validation is not complete."""
    best: float | None
    """The best validation mean up to and with it; None without a candidate so far."""
    is_new_best: bool | None
    """Whether it is better than all before; None if that is not known yet."""


def submission_history(state: RunState) -> tuple[SubmissionProgress, ...]:
    """Return the state of a run after each of its submissions."""
    validations = [validation_of(state, submission) for submission in state.submissions]
    bests = best_so_far(validation.mean if validation else None for validation in validations)
    history: list[SubmissionProgress] = []
    for submission, validation, best in zip(state.submissions, validations, bests, strict=True):
        is_new: bool | None = best != (history[-1].best if history else None)
        if validation is None and submission.status in {SubmissionStatus.OK, SubmissionStatus.INTERRUPTED}:
            is_new = None
        spent = submission.first_global_episode + len(submission.episodes)
        history.append(SubmissionProgress(submission, spent, validation, best, is_new))
    return tuple(history)


def validation_of(state: RunState, submission: SubmissionState) -> Estimate | None:
    """Return a candidate's validation; None if it is not a candidate or has not played all its cases."""
    if submission.status is not SubmissionStatus.OK:
        return None
    return state.validation(submission.charged.checkpoint)
