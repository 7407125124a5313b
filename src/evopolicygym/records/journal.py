"""The journal: append-only, one event a line, each line chained to the one before.

::

    {"sequence":7,"previous":"<sha256 of line 6>","length":123,"checksum":"<sha256 of the event>","event":{…}}

A torn end (a last line without its newline, or one that the disk filled with zeros) is cut off with a note. Any other
line that doesn't fit means that the file was changed, and nothing goes on from there.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Self

from evopolicygym.core import regular_file
from evopolicygym.core.errors import RecordError
from evopolicygym.core.event import Event
from evopolicygym.records import durable
from evopolicygym.records.documents import decode_event, text_of

BEGINNING = "0" * 64
"""What stands for the hash of the line before the first."""
MOST_LINE = 16 << 20
"""Bytes of one line: the opening, with the bounds of the largest spaces, has some 20,000."""
MOST_BYTES = 256 << 20
"""Of a journal: an episode takes 600, a request to a model 300, so that is a run of some 400,000 of them."""
_LINE = re.compile(
    rb'\{"sequence":(\d+),"previous":"([0-9a-f]{64})","length":(\d+),"checksum":"([0-9a-f]{64})","event":(.*)\}'
)


@dataclass(frozen=True, slots=True)
class JournalContents:
    """What a journal file holds."""

    events: tuple[Event, ...]
    hashes: tuple[str, ...]
    """The hash of each line."""
    size: int
    """Bytes up to the end of the last whole line."""
    torn: int
    """Bytes after it, which are no line."""


@dataclass(frozen=True, slots=True)
class _End:
    """Where the next line goes."""

    sequence: int
    last: str
    size: int


class Journal:
    """An open journal. Its owner holds the run's lock."""

    def __init__(self, path: Path) -> None:
        """Open or begin a journal; a torn end is cut off, a broken chain raises ``RecordError``."""
        self._descriptor = regular_file.descriptor(path, flags=os.O_RDWR | os.O_CREAT)
        try:
            durable.flush(path.parent)
            contents = read(path)
        except BaseException:
            self.close()
            raise
        self._events, self._hashes = list(contents.events), list(contents.hashes)
        self.torn = contents.torn
        """Bytes of a torn end that were cut off."""
        last = contents.hashes[-1] if contents.hashes else BEGINNING
        self._end = _End(len(contents.events), last, contents.size)
        self._spoilt = False
        """Whether something may lie behind the end that could not be cut off yet."""
        if contents.torn:
            try:
                self._cut()
                durable.disk.flush(self._descriptor)
            except BaseException:
                self.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def append(self, event: Event, *, flush: bool) -> None:
        """Append an event; with ``flush`` it is on disk when this returns.

        Where it can't be written (``OSError``) or is interrupted, the file stays as it was; where even that fails,
        nothing more is written until it is as it was.
        """
        end = self._end
        line = _line(event, end.sequence, end.last)
        if self._spoilt:
            self._cut()
        self._events[end.sequence :], self._hashes[end.sequence :] = [event], [_hash(line)]
        try:
            durable.write_whole(self._descriptor, line, end.size)
            if flush:
                durable.disk.flush(self._descriptor)
            self._end = _End(end.sequence + 1, self._hashes[-1], end.size + len(line))
        except BaseException:
            with suppress(OSError):
                self._cut()
            raise

    @property
    def events(self) -> tuple[Event, ...]:
        """All that the file holds by now."""
        return tuple(self._events[: self._end.sequence])

    @property
    def hashes(self) -> tuple[str, ...]:
        """The hash of each of their lines."""
        return tuple(self._hashes[: self._end.sequence])

    @property
    def reached(self) -> tuple[int, str]:
        """How many lines there are by now, and the hash of the last."""
        return self._end.sequence, self._end.last

    def hash_with(self, event: Event) -> str:
        """Return the hash that the line of this event would have if it were appended next."""
        return _hash(_line(event, self._end.sequence, self._end.last))

    def flush(self) -> None:
        """Have all that was appended on disk."""
        durable.disk.flush(self._descriptor)

    def close(self) -> None:
        """Close the file; nothing can be appended by mistake to whatever is opened next."""
        descriptor, self._descriptor = self._descriptor, -1
        os.close(descriptor)

    def _cut(self) -> None:
        """Cut off whatever lies behind the last whole line."""
        self._spoilt = True
        durable.disk.truncate(self._descriptor, self._end.size)
        self._spoilt = False


def read(path: Path) -> JournalContents:
    """Return what a journal file holds; raise ``RecordError`` where its chain is broken."""
    with regular_file.reader(path) as file:
        whole = os.fstat(file.fileno()).st_size
        if whole > MOST_BYTES:
            raise RecordError(f"{path} has {whole:,} bytes; a journal of at most {MOST_BYTES:,} is read.")
        events: list[Event] = []
        hashes, size = list[str](), 0
        for number, line in enumerate(_whole_lines(file, path)):
            event = _event(line, number, hashes[-1] if hashes else BEGINNING)
            if event is None:
                if b"\0" not in line or _holds_more(file):
                    raise RecordError(
                        f"{path}: line {number + 1} does not follow from the line before: the journal was changed."
                    )
                break
            events.append(event)
            hashes.append(_hash(line + b"\n"))
            size += len(line) + 1
        return JournalContents(tuple(events), tuple(hashes), size, max(whole, file.tell()) - size)


def _whole_lines(file: BinaryIO, path: Path) -> Iterator[bytes]:
    """Yield each line that has an end, without it; the file is read as far as the line."""
    while (line := file.readline(MOST_LINE)).endswith(b"\n"):
        yield line[:-1]
    if len(line) == MOST_LINE and line.strip(b"\0"):
        raise RecordError(f"{path} holds a line of more than {MOST_LINE:,} bytes; no event takes so many.")


def _holds_more(file: BinaryIO) -> bool:
    """Return whether anything but zeros and ends of lines comes after a line."""
    return any(block.strip(b"\0\n") for block in iter(lambda: file.read(1 << 20), b""))


def _event(line: bytes, number: int, last: str) -> Event | None:
    """Return the event of a line that fits the chain, else None."""
    found = _LINE.fullmatch(line)
    if not found:
        return None
    sequence, previous, length, checksum, text = found.groups()
    fits = (int(sequence), previous.decode(), int(length), checksum.decode()) == (
        number,
        last,
        len(text),
        hashlib.sha256(text).hexdigest(),
    )
    return decode_event(_decoded(text)) if fits else None


def _decoded(text: bytes) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"The journal holds an event that can't be read as JSON: {error}.") from error


def _line(event: Event, sequence: int, previous: str) -> bytes:
    text = text_of(event)
    checksum = hashlib.sha256(text).hexdigest()
    head = f'{{"sequence":{sequence},"previous":"{previous}","length":{len(text)},"checksum":"{checksum}","event":'
    return head.encode() + text + b"}\n"


def _hash(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()
