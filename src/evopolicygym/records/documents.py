"""Words to versioned JSON and back: the one place that knows how an event is spelled on disk.

Decoding is typed and refuses what it doesn't know, so that a file of another version is named and not guessed at.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, get_args

from evopolicygym.core.decoding import Undecodable, decoder
from evopolicygym.core.errors import RecordError
from evopolicygym.core.event import SCHEMA, Event, RunOpened
from evopolicygym.core.spaces import from_schema, to_schema
from evopolicygym.core.text import printable
from evopolicygym.records.jsontext import dumps

SCHEMA_VERSION = "1"
"""Of ``summary.json``, ``GET /info``, films and suites. A record has ``SCHEMA`` instead."""


def migrate(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a record's document in today's schema: ``run.json``, ``post_hoc.json`` or the journal's first event.

    No older schema is read, so it is returned as it is. Raises ``RecordError`` for a document of another schema.
    """
    found = document.get("schema_version", document.get("schema", 1))
    if found == SCHEMA and not isinstance(found, bool):
        return document
    shown = printable(str(found))[:60]
    is_newer = shown.isdecimal() and int(shown) > SCHEMA
    hint = (
        "It was written by a newer version of evopolicygym: update evopolicygym to read it."
        if is_newer
        else "It was written by an older version of evopolicygym: read it with that version, or play the run again."
    )
    raise RecordError(f"Invalid record: expected schema {SCHEMA}, got {shown}. {hint}")


def _kind(event_class: type) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", event_class.__name__).lower()


KINDS: Mapping[str, type] = {_kind(one): one for one in get_args(Event)}
"""Each event by its name on disk, such as ``submission_charged``."""


def encode_event(event: Event) -> dict[str, Any]:
    """Return an event as a JSON object; its kind stands under ``kind``."""
    return {"kind": _kind(type(event)), **asdict(event)}


def text_of(event: Event) -> bytes:
    """Return an event as it stands in the journal; half of a surrogate pair, which has no UTF-8, is replaced."""
    return dumps(encode_event(event)).encode("utf-8", "replace")


def as_written(event: Event) -> Event:
    """Return an event as it will be read back, so that its writer knows what every reader will."""
    return decode_event(json.loads(text_of(event)))


def decode_event(document: object) -> Event:
    """Return the event that a JSON value holds; raise ``RecordError`` where it is none of ours."""
    fields = dict(document) if isinstance(document, Mapping) else {}
    kind = fields.pop("kind", None)
    if not isinstance(kind, str) or kind not in KINDS:
        raise RecordError(f"The journal holds an event of kind {kind!r}, which this version does not know.")
    try:
        event: Event = decoder(KINDS[kind]).value(migrate(fields) if KINDS[kind] is RunOpened else fields)
    except Undecodable as error:
        raise RecordError(f"The journal holds a {kind} that can't be read: {error}.") from error
    try:
        return _with_numbers(event) if isinstance(event, RunOpened) else event
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise RecordError(f"The journal holds a {kind} whose spaces can't be read: {error}.") from error


def _with_numbers(opened: RunOpened) -> RunOpened:
    """Return the event with infinite bounds as numbers again: JSON has no word for them."""
    return replace(
        opened,
        observation_schema=to_schema(from_schema(opened.observation_schema)),
        action_schema=to_schema(from_schema(opened.action_schema)),
    )
