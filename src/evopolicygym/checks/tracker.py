"""The check of a tracker: it logs a run that stops after its first submission, then the rest of the run."""

from collections.abc import Iterator
from pathlib import Path

from evopolicygym.checks.played_run import Broken, attempt, played_run
from evopolicygym.core.check_result import CheckResult
from evopolicygym.core.event import SubmissionPublished
from evopolicygym.core.run import RunState, fold
from evopolicygym.core.text import counted
from evopolicygym.records.reader import read_run
from evopolicygym.tracking.process import Note, read_note, tracking_paths
from evopolicygym.tracking.sink import TrackerSink
from evopolicygym.tracking.tracker import TRACKERS, refuse_unknown_tracker


def check(name: str) -> Iterator[CheckResult]:
    """Check the tracker with a name; yield its findings. It ends early if the tracker can't be loaded."""
    refuse_unknown_tracker(name)
    loaded = attempt("loads", lambda: _load(name))
    yield loaded
    if not loaded.ok:
        return
    with played_run() as root:
        record = read_run(root)
        stop = next(index for index, event in enumerate(record.events) if isinstance(event, SubmissionPublished))
        stopped = fold(record.events[: stop + 1])
        yield attempt("a run that stops", lambda: _logged(name, root, stopped, submissions=1))
        count = len(record.state.submissions)
        yield attempt("the rest of it", lambda: _logged(name, root, record.state, submissions=count))


def _load(name: str) -> str:
    if not callable(TRACKERS.load(name)):
        raise Broken("expected a function make(run)")
    return "make(run) is there"


def _logged(name: str, root: Path, state: RunState, submissions: int) -> str:
    """Track what is known of a run, as ``run`` or ``resume`` does; return what was logged."""
    notes: list[str] = []
    sink = TrackerSink(name, notes.append)
    sink.open(root, state)
    sink.close()
    note, expected = read_note(tracking_paths(root).note), state.finished is not None
    if notes:
        raise Broken(" ".join(notes))
    if note != Note(name, True, submissions, expected, expected):  # noqa: FBT003 - as it is stored
        raise Broken(f"it ended early, with {counted(note.submissions, 'submission')} logged")
    return f"{counted(submissions, 'submission')}{', validation, held-out and results' if expected else ''} logged"
