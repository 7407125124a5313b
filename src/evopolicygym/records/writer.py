"""The one who writes a run: holds its lock, its journal, and the state that follows from it."""

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Self

from evopolicygym.core.errors import RecordError
from evopolicygym.core.event import Event
from evopolicygym.core.run import RunState, after, fold
from evopolicygym.records import durable
from evopolicygym.records.checkpoints import TAKING
from evopolicygym.records.journal import Journal
from evopolicygym.records.lock import locked
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.run_document import document_text

Listener = Callable[[Event, RunState], None]


class RunWriter:
    """An open run. Every change goes through ``record``: checked, on disk, then known."""

    def __init__(self, root: Path, opening: Event | None = None) -> None:
        """Open a run's directory; begin it with ``opening`` where it is new.

        Raises ``RecordError`` where another process has it open or where its journal is broken.
        """
        self.paths = RunPaths(root)
        root.mkdir(parents=True, exist_ok=True)
        self._lock_descriptor = locked(self.paths.lock, str(root))
        self._mutex = threading.RLock()
        self._listeners: list[Listener] = []
        try:
            self._clear_strays()
            self.journal = Journal(self.paths.journal)
            self.state = self._begun(opening) if opening else fold(self.journal.events)
        except BaseException:
            os.close(self._lock_descriptor)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begun(self, opening: Event) -> RunState:
        if self.journal.events:
            raise RecordError(f"{self.paths.root} already holds a run.")
        state = after(None, opening)
        self.journal.append(opening, flush=True)
        return state

    def _clear_strays(self) -> None:
        """Remove what was being written when a process before this one died."""
        durable.clear_strays(self.paths.document)
        for half_taken in self.paths.checkpoints.glob(f"{TAKING}*"):
            shutil.rmtree(half_taken, ignore_errors=True)

    def listen(self, listener: Listener) -> None:
        """Have ``listener`` told of every event after it is recorded, with the state after it."""
        self._listeners.append(listener)

    def record(self, event: Event, *, flush: bool = True) -> RunState:
        """Record an event and return the state after it.

        Raises ``RecordError`` where it breaks a rule and ``OSError`` where it can't be written; either way nothing
        has changed.
        """
        with self._mutex:
            state = after(self.state, event)
            self.journal.append(event, flush=flush)
            self.state = state
            for listener in self._listeners:
                listener(event, state)
            return state

    def write_document(self) -> None:
        """Write ``run.json`` anew from the journal."""
        self.journal.flush()
        durable.write_text(self.paths.document, document_text(self.paths))

    def close(self) -> None:
        """Close the journal and give up the lock."""
        self.journal.close()
        os.close(self._lock_descriptor)
