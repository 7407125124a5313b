"""Films in a run directory: an mp4, and a small JSON file of the same name that maps frames to steps.

Both are renamed into place, the JSON first, so a film is complete if its mp4 exists. Films that an agent requested are
covered by their feedback's hash; those in ``films`` are not, since they can be drawn again at any time.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from evopolicygym.core import regular_file
from evopolicygym.core.decoding import decoder
from evopolicygym.core.errors import RecordError
from evopolicygym.core.event import SCHEMA_VERSION
from evopolicygym.core.film import Film
from evopolicygym.core.strict_json import dumps
from evopolicygym.records import atomic

MAX_BYTES = 1 << 20
"""Bytes of a film's JSON file."""


def write_film(target: Path, draw: Callable[[Path], Film]) -> Film:
    """Draw a film at a temporary path and rename it into place; if ``draw`` raises, no partial film is left."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = atomic.temp_path(target)
    temporary.unlink(missing_ok=True)  # a link with this name must not be written through
    try:
        film = draw(temporary)
        target.unlink(missing_ok=True)
        atomic.write_text(_json_path(target), dumps(film_document(film), indent=2) + "\n")
        atomic.flush(temporary)
        atomic.rename(temporary, target)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
    return film


def film_document(film: Film) -> dict[str, object]:
    """Return the JSON object of a film."""
    return {"schema_version": SCHEMA_VERSION, **asdict(film)}


def read_film(target: Path, root: Path | None = None) -> Film | None:
    """Return a film; None if it doesn't exist, or its JSON file can't be read.

    Below ``root``, the run directory, no link is followed.
    """
    try:
        is_there = regular_file.is_there(target, root)
        return _decode(regular_file.read(_json_path(target), MAX_BYTES, root)) if is_there else None
    except (OSError, RecordError):
        return None


def _decode(text: bytes) -> Film | None:
    """Return the film in a JSON text; None if it can't be read."""
    try:
        fields = json.loads(text)
        if fields.pop("schema_version") != SCHEMA_VERSION:
            return None
        return decoder(Film, allow_unknown=True).value(fields)
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        return None


def _json_path(target: Path) -> Path:
    return target.with_suffix(".json")
