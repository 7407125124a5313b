"""A dataclass as a document: the JSON that pages read, under the names of its fields."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Any

from evopolicygym.records.rows import Record, columns
from evopolicygym.viewer.documents.reading import shown


def document(value: Any, *names: str) -> Any:  # noqa: ANN401 - any value of a dataclass, and its JSON
    """Return a value as JSON with every text safe to show.

    Of a row, that is its exported columns, of other dataclasses all fields; with ``names``, only those.
    """
    match value:
        case str():
            return shown(value)
        case datetime():
            return value.isoformat()
        case Mapping():
            return {shown(str(name)): document(part) for name, part in value.items()}
        case list() | tuple():
            return [document(part) for part in value]
    if not is_dataclass(value):
        return value
    parts = columns(type(value)) if isinstance(value, Record) else fields(value)
    return {name: document(getattr(value, name)) for name in names or [part.name for part in parts]}
