"""An agent's transcript by pages, with the places of submissions."""

import re
from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evopolicygym.core import regular_file
from evopolicygym.core.errors import RecordError, UsageError
from evopolicygym.records.reader import RunRecord
from evopolicygym.records.transcripts import SubmissionOffsets
from evopolicygym.viewer.documents.conversation import Line, add_usage, page_entries, submission_entry
from evopolicygym.viewer.documents.reading import below, read_bytes
from evopolicygym.viewer.documents.run import ModelUse

PAGE_BYTES = 48 * 1024
"""Bytes after which a page ends, at the end of a line."""
MOST_BYTES = 65 << 20
"""Most bytes of a transcript: an agent's log has 64 MiB at most, and a line on what was cut."""
_TIME = re.compile(rb'"(?:time|timestamp)": ?"(\d{4}-\d\d-\d\dT[^"]{6,24})"')


@dataclass(frozen=True, slots=True)
class Index:
    """Offsets of a transcript's pages, and the page of each submission."""

    starts: "array[int]" = field(default_factory=lambda: array("q"))
    times: tuple[str, ...] = ()
    """The first time that each page tells; empty texts where it tells none."""
    marks: Mapping[int, int] = field(default_factory=dict)
    """The offset of the line that tells of a submission."""
    size: int = 0


def transcript_index(path: Path | None) -> Index:
    """Return the index of a transcript, read once from end to end and not held."""
    starts, times, submissions = array("q"), list[str](), SubmissionOffsets()
    offset = begun = 0
    for line in _lines(path):
        if not starts or offset - begun >= PAGE_BYTES:
            starts.append(offset)
            times.append("")
            begun = offset
        if not times[-1] and (time := _TIME.search(line[:400])):
            times[-1] = time.group(1).decode("ascii", "replace")
        submissions.add(line, offset)
        offset += len(line)
    return Index(starts, tuple(times), submissions.offsets, offset)


def _lines(path: Path | None) -> Iterator[bytes]:
    if path is None:
        return
    left = MOST_BYTES
    with suppress(OSError, RecordError), regular_file.reader(path) as file:
        while left > 0 and (line := file.readline(1 << 20)):
            left -= len(line)
            yield line


def transcript_page(record: RunRecord, index: Index, page: int, requests: Sequence[ModelUse] = ()) -> dict[str, Any]:
    """Return a page; raise ``UsageError`` where there is none of this number."""
    pages = len(index.starts)
    if page and not 0 <= page < pages:
        raise UsageError(f"The transcript has no page {page}; it has {pages}.")
    begin = index.starts[page] if pages else 0
    end = index.starts[page + 1] if page + 1 < pages else index.size
    content = read_bytes(below(record.paths.root, record.paths.transcript), end - begin, begin) or b""
    here = defaultdict[int, list[int]](list)
    for number, offset in index.marks.items():
        if begin <= offset < end and number < len(record.state.submissions):
            here[offset].append(number)
    entries = page_entries(_with_offsets(content, begin), record.state.opened.agent.name, here)
    add_usage(entries, requests, is_first_page=page == 0)
    submission_pages = {
        submission.index: page_number
        for submission in record.state.submissions
        if (page_number := page_of(index, submission.index, submission.charged.time)) is not None
    }
    for submission in record.state.submissions:
        if submission.index not in index.marks and submission_pages.get(submission.index) == page:
            _add_by_time(entries, submission.index, submission.charged.time)
    return {
        "page": page,
        "pages": pages,
        "size": index.size,
        "entries": entries,
        "starts": list(index.starts) if page == 0 else None,
        "submissions": submission_pages,
    }


def _with_offsets(content: bytes, begin: int) -> list[Line]:
    lines = list[Line]()
    for line in content.splitlines(keepends=True):
        lines.append((begin, line))
        begin += len(line)
    return lines


def _add_by_time(entries: list[dict[str, Any]], number: int, time: str) -> None:
    """Add a submission after the last entry that was said before it."""
    timed = [index for index, entry in enumerate(entries) if entry["time"] and entry["time"] <= time]
    if timed:
        entries.insert(timed[-1] + 1, submission_entry(entries[timed[-1]]["at"], number))


def page_of(index: Index, submission: int, time: str) -> int | None:
    """Return the page on which a submission was made: by what tells of it, else by its time; None where neither can."""
    if submission in index.marks:
        return max(0, bisect_right(index.starts, index.marks[submission]) - 1)
    known = [page for page, first in enumerate(index.times) if first]
    if not known:
        return None
    return max((page for page in known if index.times[page] <= time), default=known[0])
