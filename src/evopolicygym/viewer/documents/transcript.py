"""An agent's transcript by pages, with the places of submissions.

A line is an entry: JSON as our harnesses and the tools write it, else plain text. What an agent's program printed is a
untrusted: it is shown as text, bounded, without a terminal's colours.
"""

import json
import re
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evopolicygym.core import regular_file
from evopolicygym.core.errors import RecordError, UsageError
from evopolicygym.records.reader import RunRecord
from evopolicygym.viewer.documents.reading import below, read_bytes, shown

PAGE_BYTES = 48 * 1024
"""Bytes after which a page ends, at the end of a line."""
LONGEST_ENTRY = 8 * 1024
"""Characters of an entry that are shown."""
MOST_BYTES = 65 << 20
"""Most bytes of a transcript: an agent's log has 64 MiB at most, and a line on what was cut."""
TAKEN = re.compile(rb"submission (\d{1,6}) is taken|submit_id\\?\"?: ?(\d{1,6})")
"""Patterns of submissions in calls and answers of the judge's client."""
_TIME = re.compile(rb'"(?:time|timestamp)": ?"(\d{4}-\d\d-\d\dT[^"]{6,24})"')
_TEXT_KEYS = (
    "text", "thinking", "content", "command", "commands", "arguments", "input", "output", "message", "item", "result",
    "error", "part", "aggregated_output",
)  # fmt: skip
"""Keys under which the tools put what a person wants to read, as far as they have any in common."""


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
    starts, times, marks = array("q"), list[str](), dict[int, int]()
    offset = begun = 0
    for line in _lines(path):
        if not starts or offset - begun >= PAGE_BYTES:
            starts.append(offset)
            times.append("")
            begun = offset
        if not times[-1] and (found := _TIME.search(line[:400])):
            times[-1] = found.group(1).decode("ascii", "replace")
        for item in TAKEN.finditer(line[: 1 << 16]):
            marks.setdefault(int(item.group(1) or item.group(2)), offset)
        offset += len(line)
    return Index(starts, tuple(times), marks, offset)


def _lines(path: Path | None) -> Iterator[bytes]:
    if path is None:
        return
    left = MOST_BYTES
    with suppress(OSError, RecordError), regular_file.reader(path) as file:
        while left > 0 and (line := file.readline(1 << 20)):
            left -= len(line)
            yield line


def transcript_page(record: RunRecord, index: Index, page: int) -> dict[str, Any]:
    """Return a page; raise ``UsageError`` where there is none of this number."""
    pages = len(index.starts)
    if page and not 0 <= page < pages:
        raise UsageError(f"The transcript has no page {page}; it has {pages}.")
    begin = index.starts[page] if pages else 0
    end = index.starts[page + 1] if page + 1 < pages else index.size
    content = read_bytes(below(record.paths.root, record.paths.transcript), end - begin, begin) or b""
    here = {offset: number for number, offset in index.marks.items() if begin <= offset < end}
    return {
        "page": page,
        "pages": pages,
        "size": index.size,
        "entries": list(_entries(content, begin, here)),
        "submissions": {
            submission.index: found
            for submission in record.state.submissions
            if (found := page_of(index, submission.index, submission.charged.time)) is not None
        },
    }


def page_of(index: Index, submission: int, time: str) -> int | None:
    """Return the page on which a submission was made: by what tells of it, else by its time; None where neither can."""
    if submission in index.marks:
        return max(0, bisect_right(index.starts, index.marks[submission]) - 1)
    known = [page for page, first in enumerate(index.times) if first]
    if not known:
        return None
    return max((page for page in known if index.times[page] <= time), default=known[0])


def _entries(content: bytes, begin: int, marks: Mapping[int, int]) -> Iterator[dict[str, Any]]:
    """Yield the entries of a page; lines of plain text that follow each other are one, up to a submission."""
    offset, plain = begin, list[bytes]()
    for line in content.splitlines(keepends=True):
        entry = _json(line)
        if plain and (entry is not None or offset in marks):
            yield _entry("", "", b"".join(plain).decode("utf-8", "backslashreplace"))
            plain = []
        if offset in marks:
            yield {"role": "submission", "submission": marks[offset], "text": "", "time": "", "cut": 0}
        if entry is None:
            plain.append(line)
        elif text := "\n".join(_texts(entry)):
            yield _entry(_role(entry), str(entry.get("time") or entry.get("timestamp") or ""), text)
        offset += len(line)
    if plain:
        yield _entry("", "", b"".join(plain).decode("utf-8", "backslashreplace"))


def _entry(role: str, time: str, text: str) -> dict[str, Any]:
    whole = shown(text).strip("\n")
    return {
        "role": shown(role)[:40], "time": shown(time)[:40],
        "text": whole[:LONGEST_ENTRY], "cut": max(0, len(whole) - LONGEST_ENTRY),
    }  # fmt: skip


def _json(line: bytes) -> dict[str, Any] | None:
    if not line.lstrip().startswith(b"{"):
        return None
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None


def _role(entry: Mapping[str, Any]) -> str:
    found = entry.get("role") or entry.get("type") or entry.get("kind")
    return found if isinstance(found, str) else ""


def _texts(entry: Any, depth: int = 0) -> Iterator[str]:  # noqa: ANN401 - any JSON
    """Yield what a JSON entry says, in the order of its keys; the entry itself where nothing of it is known."""
    found = False
    if isinstance(entry, str):
        yield entry
        return
    if depth > 6:  # noqa: PLR2004 - deeper than any tool nests what it says
        return
    parts = entry.items() if isinstance(entry, dict) else enumerate(entry) if isinstance(entry, list) else ()
    for key, value in parts:
        if isinstance(key, int) or key in _TEXT_KEYS or (depth and isinstance(value, dict | list)):
            for text in _texts(value, depth + 1):
                found = True
                yield text
    if not found and not depth:
        yield json.dumps(entry, ensure_ascii=False)
