"""The steps of an episode as JSON lines, encoded by the column: a thousand steps take a few milliseconds.

A column of numbers becomes one long text in one call and is then cut into its rows. Files and folders are described in
``records/trajectories.py``, and how single values are written in ``records/jsontext.py``.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pydantic_core import to_json

from evopolicygym.records.jsontext import dumps

NOT_FINITE = re.compile("NaN|-?Infinity")
"""How the quick encoder writes what is not finite."""


NUMBERS = (float, int, np.number, np.bool_)
"""Types of which a list becomes an array of the same numbers."""


def rows(columns: Any) -> list[str]:  # noqa: ANN401 - columns of any space
    """Return columns, as ``guest.layout.columns`` gives them, as one JSON text a step."""
    match columns:
        case dict():
            heads = [f"{dumps(name)}:" for name in columns]
            parts = [rows(part) for part in columns.values()]
            return [f"{{{','.join(map(str.__add__, heads, texts))}}}" for texts in zip(*parts, strict=True)]
        case tuple():
            parts = [rows(part) for part in columns]
            return [f"[{','.join(texts)}]" for texts in zip(*parts, strict=True)]
        case list():
            known: dict[str, str] = {text: dumps(text) for text in set(columns)}
            return [known[text] for text in columns]
        case _:
            return _cut(_numbers(columns), columns.ndim - 1)


def infos(steps: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what a simulator reported beside each step, as JSON texts."""
    columns = _columns(steps)
    return rows(columns) if columns else [_info(step) if step else "{}" for step in steps]


def _columns(steps: Sequence[Mapping[str, Any]]) -> dict[str, "np.ndarray[Any, Any]"]:
    """Return what simulators mostly tell, numbers under the same names at every step, as columns; else nothing."""
    names = tuple(steps[0]) if steps else ()
    if not all(isinstance(name, str) for name in names) or any(tuple(step) != names for step in steps):
        return {}
    columns = {}
    for name in names:
        values = [step[name] for step in steps]
        kinds = set(map(type, values))  # of one type only, so that no integer is turned into a float
        if len(kinds) > 1 or not issubclass(kinds.pop(), NUMBERS):
            return {}
        columns[name] = np.array(values)
        if columns[name].dtype.kind != np.array(values[0]).dtype.kind:
            return {}  # integers too large for one dtype
    return columns


def _numbers(column: "np.ndarray[Any, Any]") -> str:
    """Return an array as JSON without spaces."""
    text = to_json(column.tolist()).decode()
    if np.isfinite(column).all():
        return text
    return NOT_FINITE.sub(lambda found: f'"{found.group().replace("Infinity", "Inf")}"', text)


def _cut(text: str, depth: int) -> list[str]:
    """Return the elements of a JSON array of numbers whose elements are arrays nested to ``depth``."""
    inner = text[1:-1]
    if depth == 0 or not inner:
        return inner.split(",") if inner else []
    end = "]" * depth
    return [row + end for row in inner[: -len(end)].split(end + ",")]


def _info(step: Mapping[str, Any]) -> str:
    # The quick encoder writes what is not finite in its own words and refuses some of what json takes: then slowly.
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in step.items()}
    try:
        text = to_json(plain, fallback=_plain).decode()
    except ValueError:
        return dumps(step)
    return dumps(step) if "NaN" in text or "Infinity" in text else text


def _plain(value: Any) -> Any:  # noqa: ANN401 - what a simulator puts into info
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)
