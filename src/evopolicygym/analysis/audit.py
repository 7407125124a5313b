"""The audit of a record: recomputes all that can be from the journal and names what doesn't agree.

Playing held-out cases again is described in ``runs/replay.py``; it takes simulators, this takes only the files.
"""

import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from evopolicygym.core import regular_file
from evopolicygym.core.errors import RecordError
from evopolicygym.core.finding import Finding
from evopolicygym.core.run import RunState, Stage
from evopolicygym.records.checkpoints import name_of
from evopolicygym.records.feedback import feedback_sha256
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import RunRecord, read_run
from evopolicygym.records.run_document import MOST_DOCUMENT, document_text, written_stage


def audit(root: Path) -> Iterator[Finding]:
    """Yield what was checked of a run's record; a broken journal ends it, as all else hangs on that.

    Raises ``UsageError`` where there is no run.
    """
    try:
        record = read_run(root)
    except RecordError as error:
        yield Finding("journal", ok=False, detail=str(error))
        return
    state, paths = record.state, record.paths
    yield _journal(record)
    yield Finding("budget", state.spent <= state.budget, f"{state.spent} of {state.budget} episodes charged")
    yield from _checkpoints(state, paths)
    yield from _feedback(state, paths)
    for change in state.program_changes:
        changed = f"changed when the run was resumed at {change.time}: SHA-256 {change.program_sha256[:12]}…"
        yield Finding("agent's program", ok=True, detail=changed)
    if not state.finished:
        return
    if state.finished.evaluation_sha256:
        yield _evaluation(state.finished.evaluation_sha256, paths)
    yield _document(paths)
    if state.finished.score is not None:
        yield Finding("score", ok=True, detail=f"{state.finished.score:.6g}, recomputed from its held-out cases")


def _journal(record: RunRecord) -> Finding:
    """Return what is found of a journal that can be read: it lacks no end that ``run.json`` has seen."""
    state, torn = record.state, f"; {record.torn} bytes at its end are no line" if record.torn else ""
    detail = f"{len(record.events)} events, chain unbroken, every rule kept{torn}"
    if state.stage is Stage.FINISHED:
        return Finding("journal", not torn, detail)
    if written_stage(record.paths) == Stage.FINISHED:
        return Finding("journal", ok=False, detail=f"{detail}; run.json has seen the run finished, the journal has not")
    return Finding("journal", ok=True, detail=detail)


def _evaluation(expected: str, paths: RunPaths) -> Finding:
    if not os.path.lexists(paths.evaluation):
        detail = "the hidden episodes' files were left out of this record; --replay plays held-out again in their stead"
        return Finding("evaluation", ok=False, detail=detail, settled_by_replay=True)
    other = "the hidden episodes' files are not those that were scored"
    return _same("evaluation", expected, lambda: feedback_sha256(paths.evaluation, paths.root), other)


def _same(what: str, expected: str, found: Callable[[], str], other: str) -> Finding:
    """Return whether what is found is what was expected, or why it can't be found."""
    try:
        intact = found() == expected
    except FileNotFoundError:
        intact = False
    except (OSError, RecordError) as error:
        return Finding(what, ok=False, detail=f"{other}: {error}")
    return Finding(what, intact, "" if intact else other)


def _checkpoints(state: RunState, paths: RunPaths) -> Iterator[Finding]:
    for name in dict.fromkeys(one.charged.checkpoint for one in state.submissions):
        other = "its content is not what its name says"
        yield _same(f"checkpoint {name[:12]}", name, partial(_name_of, paths, name), other)


def _name_of(paths: RunPaths, checkpoint: str) -> str:
    return name_of(paths.checkpoint(checkpoint), paths.root)


def _feedback(state: RunState, paths: RunPaths) -> Iterator[Finding]:
    if not os.path.lexists(paths.feedback):  # most of a record's size, of which no score is made
        yield Finding("feedback", ok=True, detail="all of it was left out of this record; nothing of it was checked")
        return
    for submission in state.submissions:
        if not submission.published:
            continue
        directory = paths.published(submission.index)
        expected = submission.published.feedback_sha256
        found = partial(feedback_sha256, directory, paths.root)
        yield _same(f"feedback {directory.name}", expected, found, "its files are not those that were published")


def _document(paths: RunPaths) -> Finding:
    try:
        text = regular_file.read(paths.document, MOST_DOCUMENT)
        written = json.loads(text)
    except (OSError, RecordError, ValueError, RecursionError) as error:
        return Finding("run.json", ok=False, detail=f"can't be read: {error}")
    if text == document_text(paths).encode():
        return Finding("run.json", ok=True)
    derived = json.loads(document_text(paths))
    if not isinstance(written, dict):
        return Finding("run.json", ok=False, detail="holds no document of a run")
    different = sorted(key for key in derived.keys() | written.keys() if derived.get(key) != written.get(key))
    detail = f"differs from the journal in {', '.join(different)}" if different else "is not spelled as it was written"
    return Finding("run.json", ok=False, detail=detail)
