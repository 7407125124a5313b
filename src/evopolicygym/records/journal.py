"""The event log: append-only, one event per line, each line chained to the line before it.

::

    {"sequence":7,"previous":"<sha256 of line 6>","length":123,"checksum":"<sha256 of the event>","event":{…}}

A torn end (a last line without its newline, or one that the disk filled with zeros) is cut off and noted. Any other
line that breaks the chain means that the file was changed, and nothing continues from it.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Self, get_args

from evopolicygym.core import regular_file
from evopolicygym.core.decoding import Undecodable, decoder
from evopolicygym.core.errors import RecordError
from evopolicygym.core.event import SCHEMA, Event, RunOpened
from evopolicygym.core.spaces import from_schema, to_schema
from evopolicygym.core.strict_json import dumps
from evopolicygym.core.text import MOST_VERSION, printable
from evopolicygym.records import atomic

FIRST_PREVIOUS = "0" * 64
"""The hash that the first line names as the line before it."""
MAX_LINE = 16 << 20
"""Bytes of one line: ``run_opened``, with the bounds of the largest spaces, has about 20,000."""
MAX_BYTES = 256 << 20
"""Bytes of an event log: an episode takes 600 and a model request 300, so this holds about 400,000 of them."""
_LINE = re.compile(
    rb'\{"sequence":(\d+),"previous":"([0-9a-f]{64})","length":(\d+),"checksum":"([0-9a-f]{64})","event":(.*)\}'
)


@dataclass(frozen=True, slots=True)
class JournalContents:
    """The contents of an event log."""

    events: tuple[Event, ...]
    hashes: tuple[str, ...]
    """The hash of each line."""
    size: int
    """Bytes up to the end of the last whole line."""
    torn: int
    """Bytes after it, which are not a whole line."""


@dataclass(frozen=True, slots=True)
class _End:
    """The position of the next line."""

    sequence: int
    last: str
    """The hash of the line before it."""
    size: int


class Journal:
    """An event log open for appending. Its owner holds the run's lock."""

    def __init__(self, path: Path) -> None:
        """Open or create an event log; cut off a torn end, and raise ``RecordError`` if the chain is broken."""
        self._descriptor = regular_file.descriptor(path, flags=os.O_RDWR | os.O_CREAT)
        try:
            atomic.flush(path.parent)
            contents = read(path)
        except BaseException:
            self.close()
            raise
        self._events, self._hashes = list(contents.events), list(contents.hashes)
        self.torn = contents.torn
        """Bytes of a torn end that were cut off."""
        last = contents.hashes[-1] if contents.hashes else FIRST_PREVIOUS
        self._end = _End(len(contents.events), last, contents.size)
        self._needs_cut = False
        """Whether bytes may lie behind the end that could not be cut off yet."""
        if contents.torn:
            try:
                self._cut()
                atomic.disk.flush(self._descriptor)
            except BaseException:
                self.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def append(self, event: Event, *, flush: bool) -> None:
        """Append an event; with ``flush`` it is on disk when this returns.

        If the write fails (``OSError``) or is interrupted, the file stays as it was. If even that fails, nothing more
        is written until the partial line is cut off.
        """
        end = self._end
        line = _line(event, end.sequence, end.last)
        if self._needs_cut:
            self._cut()
        self._events[end.sequence :], self._hashes[end.sequence :] = [event], [_hash(line)]
        try:
            atomic.write_all(self._descriptor, line, end.size)
            if flush:
                atomic.disk.flush(self._descriptor)
            self._end = _End(end.sequence + 1, self._hashes[-1], end.size + len(line))
        except BaseException:
            with suppress(OSError):
                self._cut()
            raise

    @property
    def events(self) -> tuple[Event, ...]:
        """All events in the file so far."""
        return tuple(self._events[: self._end.sequence])

    @property
    def hashes(self) -> tuple[str, ...]:
        """The hash of each event's line."""
        return tuple(self._hashes[: self._end.sequence])

    @property
    def head(self) -> tuple[int, str]:
        """The number of lines so far, and the hash of the last."""
        return self._end.sequence, self._end.last

    def next_hash(self, event: Event) -> str:
        """Return the hash that this event's line would have if it were appended next."""
        return _hash(_line(event, self._end.sequence, self._end.last))

    def flush(self) -> None:
        """Flush all appended lines to disk."""
        atomic.disk.flush(self._descriptor)

    def close(self) -> None:
        """Close the file; nothing can be appended by mistake to a file that gets its descriptor."""
        descriptor, self._descriptor = self._descriptor, -1
        os.close(descriptor)

    def _cut(self) -> None:
        """Cut off everything behind the last whole line."""
        self._needs_cut = True
        atomic.disk.truncate(self._descriptor, self._end.size)
        self._needs_cut = False


def read(path: Path) -> JournalContents:
    """Return the contents of an event log; raise ``RecordError`` if its chain is broken."""
    with regular_file.reader(path) as file:
        file_size = os.fstat(file.fileno()).st_size
        if file_size > MAX_BYTES:
            raise RecordError(f"{path} has {file_size:,} bytes; an event log has at most {MAX_BYTES:,}.")
        events: list[Event] = []
        hashes, size = list[str](), 0
        for number, line in enumerate(_whole_lines(file, path)):
            event = _event(line, number, hashes[-1] if hashes else FIRST_PREVIOUS)
            if event is None:
                if b"\0" not in line or _has_more(file):
                    raise RecordError(
                        f"{path}: line {number + 1} does not follow from the line before: the journal was changed."
                    )
                break
            events.append(event)
            hashes.append(_hash(line + b"\n"))
            size += len(line) + 1
        return JournalContents(tuple(events), tuple(hashes), size, max(file_size, file.tell()) - size)


def _whole_lines(file: BinaryIO, path: Path) -> Iterator[bytes]:
    """Yield each line that ends in a newline, without it; the file is read no further than the line."""
    while (line := file.readline(MAX_LINE)).endswith(b"\n"):
        yield line[:-1]
    if len(line) == MAX_LINE and line.strip(b"\0"):
        raise RecordError(f"{path} has a line of more than {MAX_LINE:,} bytes, which no event takes.")


def _has_more(file: BinaryIO) -> bool:
    """Return whether the rest of the file has anything but zeros and newlines."""
    return any(block.strip(b"\0\n") for block in iter(lambda: file.read(1 << 20), b""))


def _event(line: bytes, number: int, last: str) -> Event | None:
    """Return the event of a line that fits the chain, else None."""
    match = _LINE.fullmatch(line)
    if not match:
        return None
    sequence, previous, length, checksum, text = match.groups()
    fits = (int(sequence), previous.decode(), int(length), checksum.decode()) == (
        number,
        last,
        len(text),
        hashlib.sha256(text).hexdigest(),
    )
    return decode_event(_parsed(text)) if fits else None


def _parsed(text: bytes) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"The journal holds an event that can't be read as JSON: {error}.") from error


def _line(event: Event, sequence: int, previous: str) -> bytes:
    text = _event_text(event)
    checksum = hashlib.sha256(text).hexdigest()
    head = f'{{"sequence":{sequence},"previous":"{previous}","length":{len(text)},"checksum":"{checksum}","event":'
    return head.encode() + text + b"}\n"


def _hash(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()


def _kind(event_class: type) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", event_class.__name__).lower()


KINDS: Mapping[str, type] = {_kind(event_class): event_class for event_class in get_args(Event)}
"""Each event class by its name on disk, such as ``submission_charged``."""


def encode_event(event: Event) -> dict[str, Any]:
    """Return an event as a JSON object, with its kind under ``kind``."""
    return {"kind": _kind(type(event)), **asdict(event)}


def _event_text(event: Event) -> bytes:
    """Return an event's JSON as bytes; half of a surrogate pair, which UTF-8 can't encode, is replaced."""
    return dumps(encode_event(event)).encode("utf-8", "replace")


def normalize_event(event: Event) -> Event:
    """Return an event as every reader will decode it from disk."""
    return decode_event(json.loads(_event_text(event)))


def decode_event(document: object) -> Event:
    """Return the event in a JSON value; raise ``RecordError`` for unknown kinds, unknown fields and wrong types."""
    fields = dict(document) if isinstance(document, Mapping) else {}
    kind = fields.pop("kind", None)
    if not isinstance(kind, str) or kind not in KINDS:
        raise RecordError(f"The journal holds an event of kind {kind!r}, which this version does not know.")
    try:
        event: Event = decoder(KINDS[kind]).value(check_schema(fields) if KINDS[kind] is RunOpened else fields)
    except Undecodable as error:
        raise RecordError(f"The journal holds a {kind} that can't be read: {error}.") from error
    try:
        return _restore_bounds(event) if isinstance(event, RunOpened) else event
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise RecordError(f"The journal holds a {kind} whose spaces can't be read: {error}.") from error


def _restore_bounds(opened: RunOpened) -> RunOpened:
    """Return the event with infinite bounds as floats, which JSON writes as strings."""
    return replace(
        opened,
        observation_schema=to_schema(from_schema(opened.observation_schema)),
        action_schema=to_schema(from_schema(opened.action_schema)),
    )


def check_schema(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return ``run.json``, ``post_hoc.json`` or the first event; raise ``RecordError`` unless its schema is current."""
    schema = document.get("schema_version", document.get("schema", 1))
    if schema == SCHEMA and not isinstance(schema, bool):
        return document
    shown = printable(str(schema))[:60]
    is_newer = shown.isdecimal() and int(shown) > SCHEMA
    version = printable(str(document.get("evopolicygym_version") or ""))[:MOST_VERSION]
    named = f", {version}" if version else ""
    hint = (
        f"It was written by a newer version of evopolicygym{named}: update evopolicygym to read it."
        if is_newer
        else f"It was written by an older version of evopolicygym{named}: read it with that version, or play the run "
        f"again."
    )
    raise RecordError(f"Invalid record: expected schema {SCHEMA}, got {shown}. {hint}")
