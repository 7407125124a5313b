"""Writing a run: its lock, its event log, and the state that follows from the log."""

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
from evopolicygym.records import atomic
from evopolicygym.records.checkpoints import PARTIAL_PREFIX
from evopolicygym.records.feedback import log_sha256, seal
from evopolicygym.records.group_access import GROUP, close_to_group, open_to_group
from evopolicygym.records.journal import Journal, normalize_event
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import RunRecord
from evopolicygym.records.rollback_guard import Mark, RollbackGuard
from evopolicygym.records.run_document import record_text

Listener = Callable[[Event, RunState], None]


class ListenerFailed(EvoPolicyGymError):
    """A listener raised; the event is recorded all the same."""


class RunWriter:
    """An open run. Every change goes through ``record``: checked, written to disk, then passed to listeners."""

    def __init__(self, root: Path, opening: Event | None = None, guard: RollbackGuard | None = None) -> None:
        """Open a run directory, or create it with the event ``opening``; ``guard`` keeps its high-water mark.

        Raises ``RecordError`` if another process has it open, or its event log is broken or contradicts the mark.
        """
        self.paths = RunPaths(root)
        root.mkdir(parents=True, exist_ok=True)
        if opening:  # no other user can start what an agent leaves there, such as set-user-ID programs
            close_to_group(self.paths)
        self._lock_descriptor = atomic.lock_file(self.paths.lock, str(root))
        self._mutex = threading.RLock()
        self._listeners: list[Listener] = []
        self._unflushed: list[Path] = []
        with ExitStack() as resources:
            resources.callback(os.close, self._lock_descriptor)
            check_own_files(self.paths)
            self._remove_leftovers()
            self.journal = Journal(self.paths.journal)
            resources.callback(self.journal.close)
            self._guard = guard
            if guard:
                resources.callback(guard.close)
            self.state = self._create(opening) if opening else self._load()
            self._state_events = self.journal.head[0]
            """The number of events that ``state`` includes."""
            if self._is_group_readable:
                close_to_group(self.paths)
            self._resources = resources.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _create(self, opening: Event) -> RunState:
        if self.journal.events:
            raise RecordError(f"{self.paths.root} already holds a run.")
        opening = normalize_event(opening)
        state = after(None, opening)
        if self._guard:  # before the event log exists: a run that was created here always has a mark
            self._guard.acquire((self.journal.next_hash(opening),), state.spent)
        self.journal.append(opening, flush=True)
        return state

    def _load(self) -> RunState:
        state = fold(self.journal.events)
        if self._guard:
            self.journal.flush()  # a mark may be written now, and must not be ahead of the disk
            self._guard.acquire(self.journal.hashes, state.spent)
        return state

    def _remove_leftovers(self) -> None:
        """Remove unfinished files of an earlier process that died."""
        atomic.remove_temp_files(self.paths.document)
        for unfinished in self.paths.checkpoints.glob(f"{PARTIAL_PREFIX}*"):
            shutil.rmtree(unfinished, ignore_errors=True)

    def listen(self, listener: Listener) -> None:
        """Call ``listener`` with every event after it is recorded, and with the state after it."""
        self._listeners.append(listener)

    def record(self, event: Event, *, flush: bool = True, files: Path | None = None) -> RunState:
        """Record an event and return the state after it.

        ``files`` is a directory that the event refers to; it is flushed to disk before any later flushed line.

        Raises ``RecordError`` if the event breaks a rule and ``OSError`` if it can't be written; neither changes the
        run. Raises ``StorageError`` if the high-water mark can't be updated: the event stays recorded, since removing
        it could leave the mark ahead of the log, and nobody may act on it before the run is resumed. Raises
        ``ListenerFailed`` for a listener's exception: the event stays recorded.
        """
        event = normalize_event(event)
        with self._mutex:
            state = after(self.state, event)
            if flush:
                self._flush_files()
            self.journal.append(event, flush=flush)
            self.state, self._state_events = state, self.journal.head[0]
            if files:
                self._unflushed.append(files)
            if flush and self._guard:
                self._guard.advance(Mark(*self.journal.head, state.spent))
            for listener in self._listeners:
                try:
                    listener(event, state)
                except Exception as error:
                    raise ListenerFailed(f"A listener failed on {type(event).__name__}: {error}") from error
            return state

    def seal(self, directory: Path) -> str:
        """Flush the files of a feedback, or of the hidden episodes, to disk, and return their ``feedback_sha256``."""
        with self._mutex:
            digest = seal(directory)
            self._unflushed = [path for path in self._unflushed if not path.is_relative_to(directory)]
        return digest

    def seal_logs(self) -> dict[str, str]:
        """Flush the agent's logs to disk, and return the SHA-256 of each existing log by its name."""
        digests = {path.name: digest for path in self.paths.agent_logs if (digest := log_sha256(path, self.paths.root))}
        for name in digests:
            atomic.flush(self.paths.logs / name)
        return digests

    def write_document(self) -> None:
        """Write ``run.json`` from the recorded events."""
        with self._mutex:
            self._flush_files()
            self.journal.flush()
            events = self.journal.events
            # An interruption may have come between writing an event and updating the state.
            state = self.state if len(events) == self._state_events else fold(events)
            text = record_text(RunRecord(self.paths, events, state, 0, self.journal.hashes))
        atomic.write_text(self.paths.document, text)

    def _flush_files(self) -> None:
        for directory in self._unflushed:
            if directory.is_dir():
                atomic.flush_tree(directory)
        self._unflushed.clear()

    def close(self) -> None:
        """Close the event log and release the lock; let the group read the run, if it may."""
        with self._mutex:
            try:
                if self._is_group_readable:
                    open_to_group(self.paths)
            finally:
                self._resources.close()

    @property
    def _is_group_readable(self) -> bool:
        return self.state.opened.readable == GROUP


def check_own_files(paths: RunPaths) -> None:
    """Raise ``RecordError`` for anything but a regular file or directory where the judge writes.

    A run from elsewhere may hold a link, a pipe or a device under any name. Directories that the agent writes itself
    (``workspace/system``, its home) are not checked here: their readers follow no links.
    """
    root = paths.root
    for file in (paths.journal, paths.document, paths.lock, paths.post_hoc):
        regular_file.is_there(file)
    for directory in (paths.workspace, paths.system, paths.feedback, root / "home", paths.staging, paths.workers):
        with suppress(FileNotFoundError):
            regular_file.check_directory(directory, root)
    for directory in (paths.checkpoints, paths.evaluation, paths.logs, *_staging_entries(paths)):
        with suppress(FileNotFoundError):
            for _ in regular_file.below(directory, root):
                pass


def _staging_entries(paths: RunPaths) -> list[Path]:
    """Return the entries of staging, except the workers' scratch, which has links and is removed unread."""
    with suppress(FileNotFoundError):
        return [path for path in paths.staging.iterdir() if path != paths.workers]
    return []
