"""The one who writes a run: holds its lock, its journal, and the state that follows from it."""

import os
import shutil
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self

from evopolicygym.core import regular_file
from evopolicygym.core.errors import EvoPolicyGymError, RecordError
from evopolicygym.core.event import Event
from evopolicygym.core.run import RunState, after, fold
from evopolicygym.records import durable
from evopolicygym.records.checkpoints import TAKING
from evopolicygym.records.documents import as_written
from evopolicygym.records.feedback import log_sha256, seal
from evopolicygym.records.journal import Journal
from evopolicygym.records.lock import locked
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import RunRecord
from evopolicygym.records.rollback_guard import Mark, RollbackGuard
from evopolicygym.records.run_document import text_of

Listener = Callable[[Event, RunState], None]
OWNER_ALONE = 0o700
"""Rights of a run's directory: what an agent leaves there, set-user-ID programs too, nobody else can start."""


class ListenerFailed(EvoPolicyGymError):
    """Somebody who listened to an event raised; the event is recorded all the same."""


class RunWriter:
    """An open run. Every change goes through ``record``: checked, on disk, then known."""

    def __init__(self, root: Path, opening: Event | None = None, guard: RollbackGuard | None = None) -> None:
        """Open a run's directory; begin it with ``opening`` where it is new.

        ``guard`` keeps the run's high-water mark from now on.

        Raises ``RecordError`` where another process has it open, where its journal is broken or contradicts the mark.
        """
        self.paths = RunPaths(root)
        root.mkdir(parents=True, exist_ok=True)
        if opening:
            root.chmod(OWNER_ALONE)
        self._lock_descriptor = locked(self.paths.lock, str(root))
        self._mutex = threading.RLock()
        self._listeners: list[Listener] = []
        self._unflushed: list[Path] = []
        with ExitStack() as opened:
            opened.callback(os.close, self._lock_descriptor)
            check_own_files(self.paths)
            self._clear_strays()
            self.journal = Journal(self.paths.journal)
            opened.callback(self.journal.close)
            self._guard = guard
            if guard:
                opened.callback(guard.close)
            self.state = self._begun(opening) if opening else self._found()
            self._known = self.journal.reached[0]
            """Events that the state is of."""
            self._opened = opened.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begun(self, opening: Event) -> RunState:
        if self.journal.events:
            raise RecordError(f"{self.paths.root} already holds a run.")
        opening = as_written(opening)
        state = after(None, opening)
        if self._guard:  # before there is a record: a run that was begun here always has its mark
            self._guard.take((self.journal.hash_with(opening),), state.spent)
        self.journal.append(opening, flush=True)
        return state

    def _found(self) -> RunState:
        state = fold(self.journal.events)
        if self._guard:
            self.journal.flush()  # a mark may be made now, and must not be ahead of what is on disk
            self._guard.take(self.journal.hashes, state.spent)
        return state

    def _clear_strays(self) -> None:
        """Remove what was being written when a process before this one died."""
        durable.clear_strays(self.paths.document)
        for half_taken in self.paths.checkpoints.glob(f"{TAKING}*"):
            shutil.rmtree(half_taken, ignore_errors=True)

    def listen(self, listener: Listener) -> None:
        """Pass every event to ``listener`` after it is recorded, with the state after it."""
        self._listeners.append(listener)

    def record(self, event: Event, *, flush: bool = True, files: Path | None = None) -> RunState:
        """Record an event and return the state after it.

        ``files`` is a directory that the event tells of: it is on disk before any line that is flushed after it.

        Raises ``RecordError`` where it breaks a rule and ``OSError`` where it can't be written; either way nothing
        has changed. Where the high-water mark can't follow, which is ``StorageError``, the event stands, and nobody
        may act on it before the run is resumed: to take back what is on disk could leave the mark ahead of it. What a
        listener raises comes as ``ListenerFailed``: the event stands.
        """
        event = as_written(event)
        with self._mutex:
            state = after(self.state, event)
            if flush:
                self._flush_files()
            self.journal.append(event, flush=flush)
            self.state, self._known = state, self.journal.reached[0]
            if files:
                self._unflushed.append(files)
            if flush and self._guard:
                self._guard.advance(Mark(*self.journal.reached, state.spent))
            for listener in self._listeners:
                try:
                    listener(event, state)
                except Exception as error:
                    raise ListenerFailed(f"What listens to {type(event).__name__} failed: {error}") from error
            return state

    def sealed(self, directory: Path) -> str:
        """Have all files of a feedback, or of the hidden episodes, on disk, and return their ``feedback_sha256``."""
        with self._mutex:
            found = seal(directory)
            self._unflushed = [one for one in self._unflushed if not one.is_relative_to(directory)]
        return found

    def sealed_logs(self) -> dict[str, str]:
        """Have the agent's logs on disk, and return the SHA-256 of each that there is, by its name."""
        found = {path.name: digest for path in self.paths.agent_logs if (digest := log_sha256(path, self.paths.root))}
        for name in found:
            durable.flush(self.paths.logs / name)
        return found

    def write_document(self) -> None:
        """Write ``run.json`` anew from what was recorded."""
        with self._mutex:
            self._flush_files()
            self.journal.flush()
            events = self.journal.events
            # An interruption may have come between the writing of an event and the knowing of it.
            state = self.state if len(events) == self._known else fold(events)
            text = text_of(RunRecord(self.paths, events, state, 0, self.journal.hashes))
        durable.write_text(self.paths.document, text)

    def _flush_files(self) -> None:
        for directory in self._unflushed:
            if directory.is_dir():
                durable.flush_tree(directory)
        self._unflushed.clear()

    def close(self) -> None:
        """Close the journal and give up the lock."""
        with self._mutex:
            self._opened.close()


def check_own_files(paths: RunPaths) -> None:
    """Raise ``RecordError`` that names it where anything but a file or directory lies where a judge writes.

    A record from elsewhere may hold a link, a pipe or a device under any name. What an agent writes by itself
    (``workspace/system``, its home) is not looked into here: whoever reads that follows no link.
    """
    root = paths.root
    for file in (paths.journal, paths.document, paths.lock, paths.post_hoc):
        regular_file.is_there(file)
    for directory in (paths.workspace, paths.system, paths.feedback, root / "home", paths.staging, paths.workers):
        with suppress(FileNotFoundError):
            regular_file.check_directory(directory, root)
    for directory in (paths.checkpoints, paths.evaluation, paths.logs, *_staged(paths)):
        with suppress(FileNotFoundError):
            for _ in regular_file.below(directory, root):
                pass


def _staged(paths: RunPaths) -> list[Path]:
    """Return what is being made; the scratch of workers, which is removed unread, is full of links of our own."""
    with suppress(FileNotFoundError):
        return [path for path in paths.staging.iterdir() if path != paths.workers]
    return []
