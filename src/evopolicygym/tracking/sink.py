"""The sink behind the journal: follows a run's events after they are written and hands points to a tracker's process.

Best effort: whatever becomes of the tracker, nothing here raises, waits while the run plays, or writes into its record.
Messages go through a pipe, which is the bounded queue: a tracker that doesn't empty it is given up. What the
messages say is described in ``points.py``; who reads them, in ``process.py``.
"""

import json
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

from evopolicygym.core.event import CheckpointSelected, Event, RunFinished, SubmissionPublished
from evopolicygym.core.run import RunState
from evopolicygym.core.text import printable
from evopolicygym.records.paths import RunPaths
from evopolicygym.tracking.notes import Note, note_of, places_of
from evopolicygym.tracking.points import (
    TrackedPoint,
    config_of,
    held_out_point,
    submission_point,
    summary_of,
    validation_points,
)
from evopolicygym.tracking.tracker import TrackedRun

OnOpen = Callable[[RunPaths, RunState], None]
OnEvent = Callable[[Event, RunState], None]
OnNote = Callable[[str], object]
PIPE_BYTES = 1 << 20
"""Of messages that wait, the most that Linux gives everyone: some 5,000 points."""
PATIENCE_S = 60.0
"""How long the tracker's process has to end in, once its run is over: to load MLflow alone takes ten seconds, and more
on a machine that is busy."""
LONGEST_REASON = 300


class TrackerSink:
    """Follows one run. Without a tracker, and without a note of an earlier one, it does nothing."""

    def __init__(self, tracker: str, on_note: OnNote) -> None:
        self._name, self._on_note = tracker, on_note
        self._process: subprocess.Popen[bytes] | None = None
        self._log = Path(os.devnull)
        self._note = Note("")

    def opened(self, root: Path, state: RunState) -> None:
        """Start the tracker where there is something to track, and hand it what it hasn't logged yet."""
        with self._contained():
            places = places_of(root)
            before = note_of(places.note)
            self._name = self._name or before.tracker
            self._note = before if before.tracker == self._name else Note(self._name)
            if not self._name or self._note.is_finished:
                return
            self._log = places.log
            self._start()
            self._send({"kind": "open", "note": asdict(self._note), "note_path": str(places.note), **_run(root, state)})
            for one in state.submissions[self._note.submissions :]:
                if one.published:
                    self._send_point(submission_point(state, one, is_now=False), submissions=one.index + 1)
            self._close_with(state)

    def observe(self, event: Event, state: RunState) -> None:
        """Hand on what an event tells, once it is recorded."""
        if self._process is None:
            return
        with self._contained():
            match event:
                case SubmissionPublished(submit_index=index):
                    point = submission_point(state, state.submissions[index], is_now=True)
                    self._send_point(point, submissions=index + 1)
                case CheckpointSelected() | RunFinished():
                    self._close_with(state)

    def close(self) -> None:
        """Let the tracker's process end, and wait for it a little; one that doesn't end is killed."""
        process, self._process = self._process, None
        if process is None or process.stdin is None:
            return
        try:
            with suppress(OSError):
                process.stdin.close()
            code = process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._warn(f"it had not ended {PATIENCE_S:g} s after the run")
        else:
            if code:
                self._warn(self._last_words())
        finally:
            _kill(process)

    def _close_with(self, state: RunState) -> None:
        """Hand on what may be known by now: validation once a checkpoint is selected, the score once there is one."""
        if state.selected and not self._note.is_validated:
            for point in validation_points(state):
                self._send_point(point)
            self._note = self._note.but(is_validated=True)
            self._send({"kind": "done", "note": {"is_validated": True}})
        if state.finished:
            if score := held_out_point(state):
                self._send_point(score)
            self._send({"kind": "close", "summary": summary_of(state)})

    def _send_point(self, point: TrackedPoint, submissions: int | None = None) -> None:
        note = {} if submissions is None else {"submissions": submissions}
        self._send({"kind": "log", **asdict(point), "note": note})

    def _start(self) -> None:
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "evopolicygym.tracking.process"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pipesize=PIPE_BYTES,
                process_group=0,  # Ctrl-C reaches the run alone, which then closes the tracker in good order
            )
        assert self._process.stdin  # noqa: S101 - for the type checker; a pipe was asked for
        os.set_blocking(self._process.stdin.fileno(), False)

    def _send(self, message: dict[str, object]) -> None:
        """Put a message into the pipe, whole or not at all; give the tracker up where that can't be."""
        process = self._process
        if process is None or process.stdin is None:
            return
        line = json.dumps(message).encode() + b"\n"
        try:
            written = os.write(process.stdin.fileno(), line)
        except BlockingIOError:
            written = 0
        except BrokenPipeError:
            self._give_up(self._last_words())
            return
        if written < len(line):
            self._give_up("it does not keep up with the run")

    @contextmanager
    def _contained(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001 - whatever it is, the run goes on
            self._give_up(f"{type(error).__name__}: {error}")

    def _give_up(self, reason: str) -> None:
        process, self._process = self._process, None
        if process:
            _kill(process)
        self._warn(reason)

    def _warn(self, reason: str) -> None:
        with suppress(Exception):  # a program may have turned warnings into errors
            self._on_note(
                f"The tracker {self._name} stopped: {printable(reason)[:LONGEST_REASON]}. The run and its record "
                f"are not affected; evopolicygym resume logs what is missing. Its output: {self._log}"
            )

    def _last_words(self) -> str:
        with suppress(OSError):
            lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
            return next((line for line in reversed(lines) if line.strip()), "it ended early")
        return "it ended early"


@contextmanager
def tracked(
    tracker: str, on_open: OnOpen, on_event: OnEvent, on_note: OnNote = warnings.warn
) -> Iterator[tuple[OnOpen, OnEvent]]:
    """Yield what is to be called when a run is opened and after each of its events, with a tracker behind it.

    Where ``tracker`` is empty, that is the tracker that logged the run before it was resumed, if any did.
    """
    sink = TrackerSink(tracker, on_note)

    def opened(paths: RunPaths, state: RunState) -> None:
        sink.opened(paths.root, state)
        on_open(paths, state)

    def observe(event: Event, state: RunState) -> None:
        sink.observe(event, state)
        on_event(event, state)

    try:
        yield opened, observe
    finally:
        sink.close()


def _run(root: Path, state: RunState) -> dict[str, object]:
    opened = state.opened
    agent = opened.agent.label or opened.agent.name
    run = TrackedRun(
        opened.run_id,
        f"{opened.task.environment.name} {agent} {opened.run_id}",
        opened.task.environment.name,
        config_of(opened),
        places_of(root).directory,
    )
    return {"run": {**asdict(run), "directory": str(run.directory)}, "modules": sys.path}


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill a tracker's process with all that it started, where it has not ended, and collect it."""
    if process.poll() is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            process.wait(1)
    if process.stdin:
        with suppress(OSError):
            process.stdin.close()
