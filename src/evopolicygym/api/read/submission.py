"""A submission of a run that was loaded: its row, its files, and what its agent said and read."""

from collections.abc import Mapping
from typing import Any

from evopolicygym.analysis.lineage.edit_rows import files_of, message_spans
from evopolicygym.analysis.lineage.lineage import lineage
from evopolicygym.analysis.text_diff import unified_diff
from evopolicygym.core.errors import UsageError
from evopolicygym.core.submission import STARTER
from evopolicygym.records.conversation import ConversationStep
from evopolicygym.records.feedback import read_summary
from evopolicygym.records.reader import RunRecord
from evopolicygym.records.rows import SubmissionRow
from evopolicygym.records.transcripts import transcript_of


class Submission(SubmissionRow):
    """A submission: the columns of its row, and what is read of the run directory when it is asked for."""

    __slots__ = ("_record",)
    _record: RunRecord

    def __init__(self, row: SubmissionRow, record: RunRecord) -> None:
        SubmissionRow.__init__(self, **dict(row))
        object.__setattr__(self, "_record", record)

    @property
    def parent(self) -> int | None:
        """The submission that it was made of, else the nearest in code; -1 for the starter policy, None if unknown."""
        return lineage(self._record)[self.submission].parent

    @property
    def files(self) -> Mapping[str, bytes] | None:
        """The files of its checkpoint, by path; None if the record lacks them."""
        return files_of(self._record, self.submission)

    @property
    def feedback(self) -> dict[str, Any] | None:
        """Its ``summary.json``, as the agent could read it; None if the record lacks it."""
        summary: dict[str, Any] | None = read_summary(self._record.paths, self.submission)
        return summary

    @property
    def messages(self) -> list[ConversationStep]:
        """The steps of the conversation that led to it, since the one before; empty without a transcript to read."""
        transcript = transcript_of(self._record)
        first, last = message_spans(self._record, transcript)[self.submission]
        return [] if transcript is None or first is None else transcript.steps[first - 1 : last]

    def diff(self, other: int | None = None) -> str:
        """Return the changes from another submission to this one, as a unified diff.

        Args:
            other: Its number, or -1 for the starter policy. Default: the parent.

        Raises:
            UsageError: There is no such submission, or the record lacks the files of either.
        """
        base = self.parent if other is None else other
        count = len(self._record.state.submissions)
        if base is not None and base not in range(STARTER, count):
            raise UsageError(f"Invalid submission {base!r}: expected -1, the starter policy, to {count - 1}.")
        before, after = files_of(self._record, base), self.files
        if before is None or after is None:
            raise UsageError(f"The record lacks the files of submission {self.submission if after is None else base}.")
        return unified_diff(before, after)
