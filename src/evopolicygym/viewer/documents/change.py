"""The files of a checkpoint, and how they differ from those of another: line by line, within limits."""

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files
from typing import Any

from evopolicygym.analysis.lineage.program import PLACE
from evopolicygym.analysis.lineage.program import starter_files as starter_contents
from evopolicygym.analysis.source import Bundle, changed_paths, read_bundle
from evopolicygym.analysis.text_diff import CONTEXT, BoundedMatcher, DiffBudget
from evopolicygym.core.errors import UsageError
from evopolicygym.records.reader import RunRecord
from evopolicygym.viewer.documents.reading import read_bytes, shown, within
from evopolicygym.viewer.documents.run import bundle_of

MOST_DIFFED = 256 * 1024
"""Bytes of a file that is compared line by line, and of one that is shown as a whole."""
MOST_LINES = 4000
"""Lines of a file that is compared line by line."""
MOST_ROWS = 3000
"""Lines of a file's diff that a document holds."""
MOST_FILES = 100
MOST_SOURCE = 4 << 20
"""Bytes of all files of a checkpoint that are shown as a whole."""
LONGEST_LINE = 500
Row = tuple[str, int | None, int | None, str]
"""The sign (`` ``, ``+``, ``-``, ``@``), the old and the new line number, the text."""


@dataclass(frozen=True, slots=True)
class Files:
    """The files of a policy."""

    bundle: Bundle | None
    """None where they aren't there."""
    read: Callable[[str], bytes | None]
    """Returns a file by its path, at most one byte more than is compared; None where it isn't there."""


NO_FILES = Files({}, lambda _: None)


def checkpoint_files(record: RunRecord, checkpoint: str) -> Files:
    """Return the files of a run's checkpoint."""

    def read(path: str) -> bytes | None:
        file = within(record.paths.root, record.paths.checkpoints.name, checkpoint, *path.split("/"))
        return read_bytes(file, MOST_DIFFED + 1)

    return Files(bundle_of(record, checkpoint), read)


def submission_files(record: RunRecord, index: int) -> Files:
    """Return the files of a submission; raise ``UsageError`` where there is none of this number."""
    submissions = record.state.submissions
    if not 0 <= index < len(submissions):
        raise UsageError(f"There is no submission {index}; the run has {len(submissions)}.")
    return checkpoint_files(record, submissions[index].charged.checkpoint)


@cache
def starter_files() -> Files:
    """Return the files of the starter policy."""
    with as_file(files("evopolicygym").joinpath(*PLACE)) as directory:
        return Files(read_bundle(directory), starter_contents().get)


def source_bundle(policy: Files) -> dict[str, Any]:
    """Return the whole text of all files; of those that are no text, or too large, their sizes.

    ``bytes`` is base64 of a file's content where ``text`` isn't exactly that.
    """
    if policy.bundle is None:
        return {"files": None, "more_files": 0}
    entries, left = [], MOST_SOURCE
    for path, file in list(policy.bundle.items())[:MOST_FILES]:
        content = policy.read(path) if file.size <= min(MOST_DIFFED, left) else None
        left -= len(content or b"")
        is_text = content is not None and b"\0" not in content
        text = shown(content) if content is not None and is_text else None
        is_exact = text is not None and text.encode("utf-8", "replace") == content
        entries.append(
            {
                "path": shown(path),
                "size": file.size,
                "text": text,
                "bytes": None if content is None or is_exact else base64.b64encode(content).decode("ascii"),
            }
        )
    return {"files": entries, "more_files": max(0, len(policy.bundle) - MOST_FILES)}


def change(before: Files, after: Files) -> dict[str, Any]:
    """Return which files differ, and how; ``files`` is None where either side's are not there."""
    old, new = before.bundle, after.bundle
    if new is None or old is None:
        return {"files": None, "more_files": 0}
    paths = changed_paths(old, new)
    entries, budget = [], DiffBudget()
    for path in paths[:MOST_FILES]:
        difference = file_diff(before.read(path), after.read(path), budget)
        entries.append({"path": shown(path), "kind": _kind(path in old, path in new), **difference})
    return {"files": entries, "more_files": max(0, len(paths) - MOST_FILES), "unchanged": len(new.keys() - set(paths))}


def _kind(was: bool, there: bool) -> str:  # noqa: FBT001 - two sides
    return "changed" if was and there else "added" if there else "removed"


def file_diff(before: bytes | None, after: bytes | None, budget: DiffBudget | None = None) -> dict[str, Any]:
    """Return how two contents of a file differ, line by line; why not, where they can't be compared so.

    What it takes is taken from ``budget``, which a document's files share.
    """
    budget = budget or DiffBudget()
    contents = [content or b"" for content in (before, after)]
    if any(len(content) > MOST_DIFFED for content in contents):
        return {"rows": [], "note": f"Larger than {MOST_DIFFED // 1024} KiB: not compared line by line.", "cut": 0}
    if any(b"\0" in content for content in contents):
        sizes = " to ".join(f"{len(content):,}" for content in contents)
        return {"rows": [], "note": f"Not text: from {sizes} bytes.", "cut": 0}
    budget.bytes -= sum(map(len, contents))
    if budget.bytes < 0:
        return {"rows": [], "note": "The files before it were large: not compared line by line.", "cut": 0}
    lines = [shown(content).split("\n") if content else [] for content in contents]
    if any(len(side) > MOST_LINES for side in lines):
        return {"rows": [], "note": f"More than {MOST_LINES:,} lines: not compared line by line.", "cut": 0}
    matcher = BoundedMatcher(lines[0], lines[1], budget)
    rows = list(_rows(matcher))
    plus, minus = (sum(row[0] == sign for row in rows) for sign in "+-")
    most = min(MOST_ROWS, budget.rows)
    kept = [(sign, old, new, text[:LONGEST_LINE]) for sign, old, new, text in rows[:most]]
    budget.rows -= len(kept)
    note = "" if matcher.is_whole else "Too different to be compared line by line: shown as removed and added."
    return {"rows": kept, "note": note, "cut": len(rows) - len(kept), "added": plus, "removed": minus}


def _rows(matcher: BoundedMatcher) -> Iterator[Row]:
    """Yield the lines of a unified diff."""
    before, after = matcher.a, matcher.b
    for index, group in enumerate(matcher.get_grouped_opcodes(CONTEXT)):
        if index:
            yield "@", None, None, ""
        for what, i1, i2, j1, j2 in group:
            if what == "equal":
                yield from ((" ", i + 1, j1 + i - i1 + 1, before[i]) for i in range(i1, i2))
                continue
            yield from (("-", i + 1, None, before[i]) for i in range(i1, i2))
            yield from (("+", None, j + 1, after[j]) for j in range(j1, j2))
