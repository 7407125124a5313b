"""The failures of submissions and episodes, and whether the next submission mended them."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from evopolicygym.analysis.diagnostic import Diagnostic, share
from evopolicygym.analysis.tables.table import Cell, Table, table_of
from evopolicygym.core.rollout import FailureReason
from evopolicygym.core.run import SubmissionState
from evopolicygym.core.submission import SubmissionStatus
from evopolicygym.records.reader import RunRecord


@dataclass(frozen=True, slots=True)
class SubmissionFailures:
    """The failures of a submission."""

    submit_index: int
    status: SubmissionStatus
    reasons: Mapping[str, int]
    """Failed episodes by their reason; empty if all went well, or none was played."""
    message: str
    """Why it could not be loaded, or the first failure of an episode; empty if there was none."""
    mended: bool | None
    """Whether the next submission was loaded and shows none of these failures; None if nothing was to be mended,
    or no next one was played."""

    @property
    def is_faulty(self) -> bool:
        """Whether anything went wrong."""
        return bool(self.reasons) or _unloadable(self.status)


@dataclass(frozen=True, slots=True)
class Failures:
    """The failures of a run."""

    submissions: tuple[SubmissionFailures, ...]
    statuses: Mapping[str, int]
    """Submissions by status."""
    episodes: int
    """Train episodes played."""
    reasons: Mapping[str, int]
    """Failed train episodes by reason."""


def measure(record: RunRecord) -> Failures:
    """Return the failures of a run."""
    submissions = record.state.submissions
    followers = [*(later for _, later in pairwise(submissions)), None]
    failures = tuple(
        _failures(submission, later)
        for submission, later in zip(submissions, followers[: len(submissions)], strict=True)
    )
    return Failures(
        submissions=failures,
        statuses=_sorted_counts(submission.status.value for submission in submissions),
        episodes=sum(len(submission.returns) for submission in submissions),
        reasons=_sum_counts(submission.reasons for submission in failures),
    )


def _failures(submission: SubmissionState, later: SubmissionState | None) -> SubmissionFailures:
    failed = [episode.failure for episode in submission.episodes if episode and episode.failure]
    error = submission.published.error if submission.published else None
    messages = [error.message] if error else [failure.message for failure in failed]
    return SubmissionFailures(
        submit_index=submission.index,
        status=submission.status,
        reasons=_reasons(submission),
        message=messages[0] if messages else "",
        mended=_is_mended(submission, later),
    )


def _is_mended(submission: SubmissionState, later: SubmissionState | None) -> bool | None:
    reasons = _reasons(submission)
    if later is None or later.published is None or not (reasons or _unloadable(submission.status)):
        return None
    return later.status is SubmissionStatus.OK and not reasons.keys() & _reasons(later).keys()


def _reasons(submission: SubmissionState) -> dict[str, int]:
    return _sorted_counts(
        episode.failure.reason.value for episode in submission.episodes if episode and episode.failure
    )


def _unloadable(status: SubmissionStatus) -> bool:
    return status not in {SubmissionStatus.OK, SubmissionStatus.INTERRUPTED}


def _sorted_counts(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items()))


def _sum_counts(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    return _sorted_counts(reason for count in counts for reason in Counter(count).elements())


def table(failures: Failures) -> Table:
    """Return a table of the failures of each submission."""
    rows = tuple(
        (
            submission.submit_index,
            submission.status.value,
            sum(submission.reasons.values()),
            ", ".join(f"{reason} {count}" for reason, count in submission.reasons.items()),
            {None: "", True: "yes", False: "no"}[submission.mended],
            submission.message,
        )
        for submission in failures.submissions
    )
    return table_of("failures", ("submission", "status", "failed episodes", "reasons", "mended next", "message"), rows)


def summary(runs: Sequence[Failures]) -> Mapping[str, Cell]:
    """Return counts over all submissions and episodes of all runs, and the shares that failed or were mended."""
    submissions = [submission for run in runs for submission in run.submissions]
    reasons = _sum_counts(run.reasons for run in runs)
    outcomes = [submission.mended for submission in submissions if submission.mended is not None]
    unloadable = sum(_unloadable(submission.status) for submission in submissions)
    episodes = sum(run.episodes for run in runs)
    return {
        "submissions": len(submissions),
        "not loaded": unloadable,
        "not loaded share": share(unloadable, len(submissions)),
        "episodes": episodes,
        "failed share": share(sum(reasons.values()), episodes),
        **{reason.value: reasons.get(reason.value, 0) for reason in FailureReason},
        "faulty submissions": sum(submission.is_faulty for submission in submissions),
        "mended next share": share(sum(outcomes), len(outcomes)),
    }


DIAGNOSTIC = Diagnostic(measure, table, summary)
