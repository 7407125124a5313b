"""JSON as this project writes it: one value a text, NaN and infinities as the strings "NaN", "Inf", "-Inf"."""

import json
import math
from typing import Any

import numpy as np


def dumps(value: Any, indent: int | None = None) -> str:  # noqa: ANN401 - any JSON value, numpy's included
    """Return a value as JSON text; numpy values as what they hold, what JSON doesn't know as its ``str``."""
    separators = (",", ":") if indent is None else (",", ": ")
    try:
        return json.dumps(
            value, indent=indent, separators=separators, allow_nan=False, ensure_ascii=False, default=_plain
        )
    except ValueError:
        clean = _finite(value)
        return json.dumps(clean, indent=indent, separators=separators, allow_nan=False, ensure_ascii=False)


def number(value: float) -> float | str:
    """Return a number as JSON can hold it."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else ("Inf" if value > 0 else "-Inf")


def _plain(value: Any) -> Any:  # noqa: ANN401 - as above
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, set | frozenset):
        return sorted(value)
    return str(value)


def _finite(value: Any) -> Any:  # noqa: ANN401 - as above
    match value:
        case dict():
            return {str(key): _finite(item) for key, item in value.items()}
        case list() | tuple():
            return [_finite(item) for item in value]
        case float():
            return number(value)
        case str() | int() | None:
            return value
        case _:
            return _finite(_plain(value))
