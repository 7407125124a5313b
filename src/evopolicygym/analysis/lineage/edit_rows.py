"""The rows of edits: each submission's edit with its files, and what was there to read before it."""

import base64
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import Any

from evopolicygym.analysis.lineage.lineage import lineage
from evopolicygym.analysis.lineage.program import starter_files
from evopolicygym.analysis.source import bundle_of
from evopolicygym.analysis.text_diff import text_of, unified_diff
from evopolicygym.core import regular_file
from evopolicygym.core.event import SubmissionCharged, SubmissionPublished
from evopolicygym.core.run import RunState
from evopolicygym.core.submission import STARTER
from evopolicygym.core.task import Memory
from evopolicygym.core.text import seconds_of
from evopolicygym.records.feedback import read_summary
from evopolicygym.records.reader import RunRecord
from evopolicygym.records.rows import EditRow
from evopolicygym.records.run_document import usage_before_submissions
from evopolicygym.records.transcripts import Transcript, transcript_of

Span = tuple[int, int] | tuple[None, None]
"""The first and the last step of a part of a conversation, counted from 1."""


def edit_rows(record: RunRecord) -> Iterator[EditRow]:
    """Yield the row of each of a run's edits; the files of one are held at a time."""
    feedback, spans = _feedback_before(record), message_spans(record, transcript_of(record))
    for edit, usage in zip(lineage(record), usage_before_submissions(record), strict=True):
        index = edit.submission
        before, after = files_of(record, edit.parent), files_of(record, index)
        yield EditRow(
            **dict(edit),
            cost_usd=usage.cost if usage else None,
            tokens=usage.tokens if usage else None,
            first_message=spans[index][0],
            last_message=spans[index][1],
            feedback_before=feedback[index],
            files_before=None if before is None else _as_json(before),
            files=None if after is None else _as_json(after),
            diff=None if before is None or after is None else unified_diff(before, after) or None,
        )


def files_of(record: RunRecord, index: int | None) -> Mapping[str, bytes] | None:
    """Return the files of a submission, or of the starter policy, by path; None if they are missing."""
    if index is None or index == STARTER:
        return None if index is None else starter_files()
    name = record.state.submissions[index].charged.checkpoint
    directory, bundle = record.paths.checkpoint(name), bundle_of(record, name)
    if bundle is None:
        return None
    return {path: regular_file.read(directory / path, file.size, directory) for path, file in bundle.items()}


def _as_json(files: Mapping[str, bytes]) -> dict[str, Any]:
    texts = {path: text_of(content) for path, content in files.items()}
    return {
        path: {"base64": base64.b64encode(files[path]).decode("ascii")} if text is None else text
        for path, text in texts.items()
    }


def _feedback_before(record: RunRecord) -> list[dict[str, Any] | None]:
    """Return the summaries that came before each submission, since the one before; of independent samples, none."""
    came, feedback = list[int](), list[dict[str, Any] | None]()
    for event in record.events:
        if isinstance(event, SubmissionPublished) and record.state.opened.task.memory is Memory.FULL:
            came.append(event.submit_index)
        elif isinstance(event, SubmissionCharged):
            summaries = {str(index): read_summary(record.paths, index) for index in came}
            known = {index: summary for index, summary in summaries.items() if summary is not None}
            feedback.append(known or None)
            came.clear()
    return feedback


def message_spans(record: RunRecord, transcript: Transcript | None) -> list[Span]:
    """Return the steps that led to each submission: those since the one before, up to that which tells of it.

    Without one that tells, it is the last that was said before; of independent samples, whose numbers begin anew, too.
    """
    spans, first = list[Span](), 1
    for submission in record.state.submissions:
        last = None if transcript is None else _last_step(record.state, transcript, submission.charged)
        if last is None:
            spans.append((None, None))
            continue
        spans.append((min(first, last), last))
        first = max(first, last + 1)
    return spans


def _last_step(state: RunState, transcript: Transcript, charged: SubmissionCharged) -> int | None:
    recorded = transcript.submissions.get(charged.submit_index) if state.opened.task.memory is Memory.FULL else None
    if recorded:
        return recorded
    times = [(time, number) for number, step in enumerate(transcript.steps, 1) if (time := seconds_of(step.time))]
    charged_at = seconds_of(charged.time) or 0.0
    index = bisect_right(times, (charged_at, len(transcript.steps)))
    return times[index - 1][1] if index else None
