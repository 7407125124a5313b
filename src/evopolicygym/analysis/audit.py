"""The audit of a record: recomputes all that can be from the journal and names what doesn't agree.

Playing held-out cases again is not told here but in ``runs/replay.py``; it takes simulators, this takes only the files.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from evopolicygym.core.errors import RecordError
from evopolicygym.core.run import RunState, Stage
from evopolicygym.records.checkpoints import name_of
from evopolicygym.records.feedback import feedback_sha256
from evopolicygym.records.jsontext import dumps
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import read_run
from evopolicygym.records.run_document import run_document


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was checked."""

    what: str
    ok: bool
    detail: str = ""


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
    finished = state.stage is Stage.FINISHED
    torn = f"; {record.torn} bytes at its end are no line" if record.torn else ""
    detail = f"{len(record.events)} events, chain unbroken, every rule kept{torn}"
    yield Finding("journal", not (torn and finished), detail)
    yield Finding("budget", state.spent <= state.budget, f"{state.spent} of {state.budget} episodes charged")
    yield from _checkpoints(state, paths)
    yield from _feedback(state, paths)
    if not finished:
        return
    yield _document(paths)
    if state.finished and state.finished.score is not None:
        yield Finding("score", ok=True, detail=f"{state.finished.score:.6g}, recomputed from its held-out cases")


def _checkpoints(state: RunState, paths: RunPaths) -> Iterator[Finding]:
    for name in dict.fromkeys(one.charged.checkpoint for one in state.submissions):
        directory = paths.checkpoint(name)
        intact = directory.is_dir() and name_of(directory) == name
        yield Finding(f"checkpoint {name[:12]}", intact, "" if intact else "its content is not what its name says")


def _feedback(state: RunState, paths: RunPaths) -> Iterator[Finding]:
    for submission in state.submissions:
        if not submission.published:
            continue
        directory = paths.published(submission.index)
        expected = submission.published.feedback_sha256
        intact = directory.is_dir() and feedback_sha256(directory) == expected
        detail = "" if intact else "its files are not those that were published"
        yield Finding(f"feedback {directory.name}", intact, detail)


def _document(paths: RunPaths) -> Finding:
    try:
        written = json.loads(paths.document.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        return Finding("run.json", ok=False, detail=f"can't be read: {error}")
    derived = json.loads(dumps(run_document(paths)))
    different = sorted(key for key in derived.keys() | written.keys() if derived.get(key) != written.get(key))
    return Finding(
        "run.json", not different, f"differs from the journal in {', '.join(different)}" if different else ""
    )
