"""Whose child each submission is: its parent among those before it, and how far it is from that.

A parent is declared by the agent (``./judge restore``, ``--parent``), or else the nearest earlier submission that could
be loaded, by least difference (``difference.py``), of equals the latest. The starter policy comes before all.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from evopolicygym.analysis.lineage.difference import Difference, difference
from evopolicygym.analysis.lineage.program import PolicyProgram
from evopolicygym.analysis.lineage.starter import starter
from evopolicygym.core.rollout import FailureReason
from evopolicygym.core.run import SubmissionState
from evopolicygym.core.submission import STARTER, SubmissionStatus


@dataclass(frozen=True, slots=True)
class Parent:
    """Where a submission came from."""

    index: int
    """A submission's number, or ``STARTER``."""
    difference: Difference
    is_declared: bool


class Family:
    """The submissions of a run with their programs, and the starter policy before them."""

    def __init__(self, submissions: tuple[SubmissionState, ...], programs: Mapping[str, PolicyProgram | None]) -> None:
        """Take a run's submissions, and the program of each checkpoint; None where it is not there."""
        self._submissions = submissions
        self._programs = programs
        self._differences: dict[tuple[str, str], Difference] = {}

    def program(self, index: int) -> PolicyProgram | None:
        """Return the program of a submission, or of the starter; None where its files are not there."""
        return starter() if index == STARTER else self._programs[self._submissions[index].charged.checkpoint]

    def loadable_before(self, index: int) -> Iterator[int]:
        """Yield the submissions before one that could be loaded and are there, the latest first; then the starter."""
        for earlier in range(index - 1, STARTER, -1):
            if is_loadable(self._submissions[earlier]) and self.program(earlier) is not None:
                yield earlier
        yield STARTER

    def parent(self, index: int) -> Parent | None:
        """Return where a submission came from; None where its own files or its parent's are not there."""
        own = self.program(index)
        declared = self._submissions[index].charged.parent
        if declared is not None:
            said = self.program(declared)
            return Parent(declared, difference(said, own), is_declared=True) if said and own else None
        if own is None:
            return None
        nearest = min(self.loadable_before(index), key=lambda earlier: self.difference(earlier, index))
        return Parent(nearest, self.difference(nearest, index), is_declared=False)

    def difference(self, earlier: int, later: int) -> Difference:
        """Return how far two submissions are apart, both of which are there."""
        one, other = self.program(earlier), self.program(later)
        assert one is not None  # noqa: S101 - for the type checker; demanded of callers
        assert other is not None  # noqa: S101 - as above
        key = (one.content, other.content)
        if key not in self._differences:
            self._differences[key] = difference(one, other)
        return self._differences[key]

    def goes_on(self, index: int, parent: int) -> bool:
        """Return whether a submission has lines of the one before, and is no farther from that than from its parent."""
        before, above = self.difference(index - 1, index), self.difference(parent, index)
        return before.share < 1 and (before.share, before.words) <= (above.share, above.words)

    def returned_to(self, index: int) -> int | None:
        """Return the latest earlier submission that could be loaded and had the same program, or the starter."""
        own = self.program(index)
        return next((one for one in self.loadable_before(index) if self._content(one) == (own and own.content)), None)

    def plays_several(self, checkpoint: str) -> bool:
        """Return whether a checkpoint is given several numbers of episodes: as many as its first submission had."""
        return len(next(one.episodes for one in self._submissions if one.charged.checkpoint == checkpoint)) > 1

    def is_broken(self, index: int) -> bool:
        """Return whether a submission could not be loaded, or failed in all its episodes by an exception."""
        return index != STARTER and is_broken(self._submissions[index])

    def never_loaded(self, index: int) -> bool:
        """Return whether it is settled that a submission could not be loaded."""
        submission = self._submissions[index]
        return submission.published is not None and submission.status is not SubmissionStatus.OK

    def _content(self, index: int) -> str | None:
        program = self.program(index)
        return program.content if program else None


def is_loadable(submission: SubmissionState) -> bool:
    """Return whether a submission's policy was constructed: it has played, or plays."""
    if submission.status is SubmissionStatus.INTERRUPTED:
        return any(submission.episodes)
    return submission.status is SubmissionStatus.OK


def is_broken(submission: SubmissionState) -> bool:
    """Return whether a submission could not be loaded, or failed in all its episodes by an exception."""
    if submission.published is None:
        return False
    failed = [one is not None and one.failure is not None and one.failure.reason is FailureReason.ERROR
              for one in submission.episodes]  # fmt: skip
    return submission.status is not SubmissionStatus.OK or all(failed)
