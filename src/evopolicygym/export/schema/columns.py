"""A table's columns: name, type, unit and meaning, written once, in the row's class, and read from there.

What the columns are is described in ``rows.py``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from functools import cache
from types import NoneType
from typing import Any, NewType, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

Json = NewType("Json", str)
"""A JSON text; NaN and infinities in it are the strings "NaN", "Inf", "-Inf"."""
Numbers = NDArray[np.float64]
"""A flat list of numbers."""


class ValueKind(StrEnum):
    """What a column holds."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    TIME = "time"
    """In UTC, to the millisecond."""
    JSON = "JSON"
    NUMBERS = "numbers"


_KINDS: Mapping[Any, ValueKind] = {
    str: ValueKind.TEXT,
    int: ValueKind.INTEGER,
    float: ValueKind.NUMBER,
    bool: ValueKind.BOOLEAN,
    datetime: ValueKind.TIME,
    Json: ValueKind.JSON,
    Numbers: ValueKind.NUMBERS,
}


@dataclass(frozen=True, slots=True)
class ColumnSchema:
    """One column of a table."""

    name: str
    kind: ValueKind
    optional: bool
    """Whether a row may lack it."""
    unit: str
    """Empty where it has none."""
    meaning: str


def column(meaning: str, unit: str = "") -> Any:  # noqa: ANN401 - a field of any type
    """Return a field of a row's class; its annotation tells the column's type."""
    return field(metadata={"meaning": meaning, "unit": unit})


def columns(row: type) -> tuple[ColumnSchema, ...]:
    """Return the columns of a table by the class of its rows."""
    return _columns(row)


@cache
def _columns(row: Any) -> tuple[ColumnSchema, ...]:  # noqa: ANN401 - a class is hashable, and mypy doubts it
    hints = get_type_hints(row)
    return tuple(_column(one.name, hints[one.name], one.metadata) for one in fields(row))


def _column(name: str, hint: Any, metadata: Mapping[str, str]) -> ColumnSchema:  # noqa: ANN401 - an annotation
    members = (hint,) if hint in _KINDS else get_args(hint)
    (kind,) = (_KINDS[one] for one in members if one is not NoneType)
    return ColumnSchema(name, kind, NoneType in members, metadata["unit"], metadata["meaning"])


def markdown(row: type) -> str:
    """Return a table's columns as they stand in the docs."""
    lines = ["| column | type | unit | meaning |", "|---|---|---|---|"]
    for one in columns(row):
        kind = f"{one.kind}{', or null' if one.optional else ''}"
        lines.append(f"| `{one.name}` | {kind} | {one.unit} | {one.meaning} |")
    return "\n".join(lines) + "\n"
