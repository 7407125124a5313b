"""Films in a run's directory: an mp4 and a small JSON of the same name, which says what frame shows which step.

Written beside and renamed, the JSON first: a film is there, complete, where its mp4 is. Those in ``films`` stand in no
hash, as they can be made again at any time; those that an agent asked for stand in their feedback's. ``paths.py`` says
where they lie.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from evopolicygym.core import regular_file
from evopolicygym.core.decoding import decoder
from evopolicygym.core.errors import RecordError
from evopolicygym.core.film import Film
from evopolicygym.records import durable
from evopolicygym.records.documents import SCHEMA_VERSION
from evopolicygym.records.jsontext import dumps

MOST_BYTES = 1 << 20
"""Bytes of a film's JSON, at most."""


def put_film(target: Path, make: Callable[[Path], Film]) -> Film:
    """Have a film made beside its place and put it there; whatever ``make`` raises, no half of one is left."""
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = durable.temp_path(target)
    beside.unlink(missing_ok=True)  # whatever lies there: a link under this name is not written through
    try:
        film = make(beside)
        target.unlink(missing_ok=True)
        durable.write_text(_description(target), dumps(document(film), indent=2) + "\n")
        durable.flush(beside)
        durable.rename(beside, target)
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
    return film


def document(film: Film) -> dict[str, object]:
    """Return a film as its JSON has it."""
    return {"schema_version": SCHEMA_VERSION, **asdict(film)}


def read_film(target: Path, root: Path | None = None) -> Film | None:
    """Return what is shown of a film; None where it is not there, or what is shown of it can't be read.

    ``root`` is the run's directory, below which no link is followed.
    """
    try:
        is_there = regular_file.is_there(target, root)
        return _film_described(regular_file.read(_description(target), MOST_BYTES, root)) if is_there else None
    except (OSError, RecordError):
        return None


def _film_described(text: bytes) -> Film | None:
    """Return what a film's JSON says; None where it can't be read."""
    try:
        described = json.loads(text)
        if described.pop("schema_version") != SCHEMA_VERSION:
            return None
        return decoder(Film, allow_unknown=True).value(described)
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        return None


def _description(target: Path) -> Path:
    return target.with_suffix(".json")
