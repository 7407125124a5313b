"""Strict JSON, read from untrusted senders and written for any reader: a text has one meaning or is refused.

Written JSON has NaN and infinities as the strings "NaN", "Inf" and "-Inf".
"""

import json
import math
from collections import Counter
from typing import Any

import numpy as np

MOST_NESTING = 128
"""How deep lists and objects may lie within each other."""
BYTE_ORDER_MARK = "\ufeff"


class NotStrict(ValueError):
    """A text is not the JSON that is read here; the message says what was found in it."""


def decode(data: bytes | str) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value that a text holds; raise ``NotStrict`` where it isn't strict JSON.

    Strict is UTF-8 without a byte order mark, every field of an object named once, every number finite, and lists and
    objects at most ``MOST_NESTING`` deep.
    """
    text = data if isinstance(data, str) else _utf_8(data)
    if text.startswith(BYTE_ORDER_MARK):
        raise NotStrict("it begins with a byte order mark")
    try:
        value = json.loads(text, object_pairs_hook=_once, parse_constant=_no_number, parse_float=_finite)
    except NotStrict:
        raise
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:
        raise NotStrict(str(error).partition(";")[0]) from None  # what follows is advice for Python's settings
    if _is_too_deep(value):
        raise _too_deep()
    return value


def _utf_8(data: bytes) -> str:
    encoding = json.detect_encoding(data)
    if not encoding.startswith("utf-8"):  # which a text that begins with a byte order mark is as well
        raise NotStrict(f"it is {encoding.upper()}, not UTF-8")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NotStrict(f"it is not UTF-8: byte 0x{data[error.start]:02x} at position {error.start}") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    node = dict(pairs)
    if len(node) < len(pairs):
        ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise NotStrict(f"the field {twice[:60]!r} is named twice")
    return node


def _no_number(text: str) -> float:
    raise NotStrict(f"{text} is not a JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise NotStrict(f"the number {text[:20]} is too large")
    return value


def _is_too_deep(value: object) -> bool:
    level = [value]
    for _ in range(MOST_NESTING + 1):
        containers = [node for node in level if isinstance(node, list | dict)]
        level = [item for node in containers for item in (node if isinstance(node, list) else node.values())]
        if not containers:
            return False
    return True


def _too_deep() -> NotStrict:
    return NotStrict(f"its lists and objects lie more than {MOST_NESTING} deep in each other")


def dumps(value: Any, indent: int | None = None) -> str:  # noqa: ANN401 - any JSON value, numpy's included
    """Return a value as JSON text: numpy values as numbers and lists, values that JSON can't hold as their ``str``."""
    separators = (",", ":") if indent is None else (",", ": ")
    try:
        return json.dumps(
            value, indent=indent, separators=separators, allow_nan=False, ensure_ascii=False, default=_plain_value
        )
    except ValueError:
        finite = _finite_value(value)
        return json.dumps(finite, indent=indent, separators=separators, allow_nan=False, ensure_ascii=False)


def _plain_value(value: Any) -> Any:  # noqa: ANN401 - as above
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, set | frozenset):
        return sorted(value)
    return str(value)


def _finite_value(value: Any) -> Any:  # noqa: ANN401 - as above
    match value:
        case dict():
            return {str(key): _finite_value(item) for key, item in value.items()}
        case list() | tuple():
            return [_finite_value(item) for item in value]
        case float():
            return _finite_number(value)
        case str() | int() | None:
            return value
        case _:
            return _finite_value(_plain_value(value))


def _finite_number(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else ("Inf" if value > 0 else "-Inf")
