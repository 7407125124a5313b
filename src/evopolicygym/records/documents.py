"""Words to versioned JSON and back: the one place that knows how an event is spelled on disk.

Decoding is typed and refuses what it doesn't know, so that a file of another version is named and not guessed at.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, get_args

from evopolicygym.core.decoding import Undecodable, decoder
from evopolicygym.core.errors import RecordError
from evopolicygym.core.event import Event, RunOpened
from evopolicygym.core.spaces import from_schema, to_schema

SCHEMA_VERSION = "1"
"""Of journal, ``run.json`` and ``summary.json`` alike."""


def _kind(event_class: type) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", event_class.__name__).lower()


KINDS: Mapping[str, type] = {_kind(one): one for one in get_args(Event)}
"""Each event by its name on disk, such as ``submission_charged``."""


def encode_event(event: Event) -> dict[str, Any]:
    """Return an event as a JSON object; its kind stands under ``kind``."""
    return {"kind": _kind(type(event)), **asdict(event)}


def decode_event(document: object) -> Event:
    """Return the event that a JSON value holds; raise ``RecordError`` where it is none of ours."""
    fields = dict(document) if isinstance(document, Mapping) else {}
    kind = fields.pop("kind", None)
    if not isinstance(kind, str) or kind not in KINDS:
        raise RecordError(f"The journal holds an event of kind {kind!r}, which this version does not know.")
    try:
        event: Event = decoder(KINDS[kind]).value(fields)
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
