"""The high-water mark of a run: how far its journal has come, kept outside of the run's directory.

An older copy of a run, or a copy that went another way, is found by it, and so is never played on with a budget that
was spent already. Where marks lie, and under which key, is described in ``runs/marks.py``.

A mark's file has two slots, each in a page of its own, which are written in turn: a write that is cut off leaves the
mark before it. A slot is one line::

    <lines> <hash of the last line> <episodes charged> <HMAC-SHA256 of these and of the run's name>
"""

import hashlib
import hmac
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path

from evopolicygym.core.errors import RecordError
from evopolicygym.core.places import not_kept
from evopolicygym.records import durable
from evopolicygym.records.jsontext import dumps
from evopolicygym.records.lock import locked

SLOT = 4096
"""Bytes from one slot to the next: a write that tears a page harms one of them."""


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """How far a journal had come."""

    lines: int
    last: str
    """The hash of the last line."""
    spent: int
    """Episodes charged."""

    def contradiction(self, hashes: Sequence[str], spent: int) -> str | None:
        """Return how a journal of lines with these hashes contradicts the mark; None where it goes on from there."""
        held = f"it holds {len(hashes)} events, {spent} episodes charged"
        marked = f"it had {self.lines} events, {self.spent} episodes charged, when it was last played on this machine"
        if len(hashes) < self.lines:
            return f"the record goes back: {held}; {marked}"
        if hashes[self.lines - 1] != self.last:
            return f"the record is another one from event {self.lines} or before: {held}; {marked}"
        return None


class HighWaterMark:
    """The mark of one run. It may be read by anyone who has the key; who advances it has taken it before."""

    def __init__(self, directory: Path, key: bytes, experiment: str, run_id: str) -> None:
        self._key, self._run_id = key, run_id
        self._run = (experiment, run_id)
        name = hashlib.sha256(_encoded(self._run)).hexdigest()
        self.path = directory / name
        self._descriptor = -1
        self._slot = 0
        """The slot that counts."""

    def read(self) -> Mark | None:
        """Return the mark, None where there is none; raise ``RecordError`` where it is not one of this key."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return None
        return max(self._valid(content))[0]

    def take(self, hashes: Sequence[str], spent: int) -> None:
        """Hold the mark against a journal, with its lock, and bring it up to there; where there is none yet, make it.

        Raises ``RecordError`` where the journal contradicts it or another process has it, ``StorageError`` where it
        can't be written.
        """
        reached = Mark(len(hashes), hashes[-1], spent)
        try:
            if not self.path.exists():
                line = self._line(reached)
                with suppress(FileExistsError):  # a copy of the run is opened at the same moment
                    durable.create_text(self.path, line.decode().ljust(2 * SLOT))
            self._descriptor = locked(self.path, f"Another copy of run {self._run_id}")
            durable.clear_strays(self.path)
            mark, self._slot = max(self._valid(self.path.read_bytes()))
        except OSError as error:
            raise not_kept(f"The high-water mark of run {self._run_id}", error) from error
        if contradiction := mark.contradiction(hashes, spent):
            raise RecordError(
                f"Run {self._run_id} can't be played on: {contradiction}. What works: the copy of the run that was "
                f"played last, or a new run."
            )
        if mark != reached:
            self.advance(reached)

    def advance(self, mark: Mark) -> None:
        """Have the mark say, on disk, that the journal has come so far; raise ``StorageError`` where it can't."""
        try:
            durable.write_whole(self._descriptor, self._line(mark), (1 - self._slot) * SLOT)
            durable.disk.flush_content(self._descriptor)
        except OSError as error:
            raise not_kept(f"The high-water mark of run {self._run_id}", error) from error
        self._slot = 1 - self._slot

    def close(self) -> None:
        """Give up the lock."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _valid(self, content: bytes) -> Iterator[tuple[Mark, int]]:
        """Yield what stands in the slots that were written whole, with their places."""
        found = False
        for slot in (0, 1):
            line = content[slot * SLOT : (slot + 1) * SLOT].partition(b"\n")[0]
            with suppress(ValueError):
                lines, last, spent, _ = line.decode().split()
                mark = Mark(int(lines), last, int(spent))
                if hmac.compare_digest(self._line(mark), line + b"\n"):
                    found = True
                    yield mark, slot
        if not found:
            raise RecordError(
                f"{self.path} is not the high-water mark of run {self._run_id} under this user's key: the file or the "
                f"key was changed. Without that file the run is taken as one that was not begun here."
            )

    def _line(self, mark: Mark) -> bytes:
        fields = astuple(mark)
        code = hmac.new(self._key, _encoded((*self._run, *fields)), hashlib.sha256).hexdigest()
        return " ".join(map(str, (*fields, code))).encode() + b"\n"


def _encoded(values: Sequence[str | int]) -> bytes:
    return dumps(values).encode("utf-8", "backslashreplace")
