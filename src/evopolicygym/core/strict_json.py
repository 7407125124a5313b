"""JSON from an untrusted sender: one text has one meaning, for us and for anybody else who reads it, or it is refused.

JSON of our own is written in ``records/jsontext.py`` and read with the standard library.
"""

import json
import math
from collections import Counter
from typing import Any

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
    found = json.detect_encoding(data)
    if not found.startswith("utf-8"):  # which a text that begins with a byte order mark is as well
        raise NotStrict(f"it is {found.upper()}, not UTF-8")
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
