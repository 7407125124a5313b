"""The parameters that a policy declares: the names and values in ``parameters.json`` beside its ``policy.py``.

A submission may set some of them for its checkpoint alone, so that two values are compared without an edit: the
checkpoint holds the file as it was played. The file belongs to untrusted code; it is read as data, strictly.
"""

import json
import re
from collections.abc import Mapping

from evopolicygym.core import strict_json
from evopolicygym.core.errors import RefusalStatus, RequestRefused
from evopolicygym.core.submission import Setting

PARAMETERS = "parameters.json"
MOST_BYTES = 1 << 16
"""Of the file, where some of it is set."""
SPACE = re.compile(r"[ \t\n\r]*")
LISTED = 20
"""How many names a refusal lists."""


def with_settings(content: bytes, settings: Mapping[str, Setting]) -> bytes:
    """Return the file with some parameters set; its own bytes where they have these values already.

    Raises ``RequestRefused`` where the file declares no such parameter, or one of another kind.
    """
    declared = _declared(content)
    for name, value in settings.items():
        if name not in declared:
            raise _refused(f"{PARAMETERS} declares no parameter {name!r}; it declares {_listed(declared)}")
        if not _fits(value, declared[name]):
            raise _refused(f"{name} is {_kind(declared[name])} in {PARAMETERS}, so it can't be set to {value!r}")
    return _replaced(content.decode("utf-8"), settings).encode()


def _replaced(text: str, settings: Mapping[str, Setting]) -> str:
    """Return a JSON object's text with other values of some of its names, and nothing else changed."""
    read, found, place = json.JSONDecoder().raw_decode, [], _value_after(text, "{", 0)
    while text[place] != "}":
        name, end = read(text, place)
        begin = _value_after(text, ":", end)
        value, end = read(text, begin)
        if name in settings and settings[name] != value:
            found.append((begin, end, json.dumps(settings[name])))
        place = SPACE.match(text, end).end()  # type: ignore[union-attr] # it matches nothing, too
        place = _value_after(text, ",", place) if text[place] == "," else place
    for begin, end, value in reversed(found):
        text = text[:begin] + value + text[end:]
    return text


def _value_after(text: str, sign: str, place: int) -> int:
    """Return where the next value begins, after a sign and white space on both sides of it."""
    return SPACE.match(text, text.index(sign, place) + 1).end()  # type: ignore[union-attr] # as above


def _declared(content: bytes) -> dict[str, object]:
    try:
        document = strict_json.decode(content)
    except strict_json.NotStrict as error:
        raise _refused(f"{PARAMETERS} is not strict JSON: {error}") from error
    if not isinstance(document, dict):
        raise _refused(f'{PARAMETERS} must be a JSON object of names and values, such as {{"speed": 4.6}}')
    return document


def _fits(value: Setting, declared: object) -> bool:
    """Return whether a value is of the kind of the one that is declared: a whole number also fits another number."""
    return _kind(value) == _kind(declared) or (isinstance(declared, float) and _kind(value) == "a whole number")


def _kind(value: object) -> str:
    match value:
        case bool():
            return "true or false"
        case int():
            return "a whole number"
        case float():
            return "a number"
        case str():
            return "a text"
        case _:
            return "neither a number nor a text nor true or false"


def _listed(declared: Mapping[str, object]) -> str:
    names = sorted(declared)
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(name[:60] for name in names[:LISTED]) + more if names else "none"


def refuse_missing() -> RequestRefused:
    """Return the refusal of settings where there is no file that could declare any."""
    return _refused(f'system/ holds no {PARAMETERS}; write it, such as {{"speed": 4.6}}, and have policy.py read it')


def _refused(why: str) -> RequestRefused:
    return RequestRefused(RefusalStatus.INVALID_REQUEST, f"set: {why}.")
