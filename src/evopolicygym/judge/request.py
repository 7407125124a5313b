"""What a client may ask of ``POST /submit`` and ``POST /finish``, decoded once and strictly."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evopolicygym.core.errors import RefusalStatus, RequestRefused

MAX_KEY = 200
"""The most characters of a key."""
_FIELDS = {"env_instances", "wait", "key", "films"}


@dataclass(frozen=True, slots=True)
class SubmitRequest:
    """A request whose form is right; whether its indices and its price are is the session's to say."""

    env_instances: object
    wait: bool = True
    """Whether the answer is due only when the submission is published."""
    key: str = ""
    """The same key again means the same submission."""
    films: object = None
    """Which of the cases are to be filmed, in the form of ``env_instances``; None for none."""


def parse_submit(body: object) -> SubmitRequest:
    """Return the request that a decoded JSON body holds; raise ``RequestRefused`` naming the rule and the value."""
    if not isinstance(body, dict):
        raise _refused('the body must be a JSON object such as {"env_instances": "0-3"}')
    if unknown := sorted(set(map(str, body)) - _FIELDS):
        raise _refused(f"unknown field {unknown[0][:60]!r}; known are {', '.join(sorted(_FIELDS))}")
    if "env_instances" not in body:
        raise _refused('env_instances is missing; name train cases such as {"env_instances": "0-3"}')
    return SubmitRequest(body["env_instances"], _wait(body), _key(body), body.get("films"))


def parse_finish(body: object) -> None:
    """Refuse whatever is more than a wish to finish; raise ``RequestRefused``."""
    if body != {}:
        raise _refused("finishing takes no fields; send {} or nothing")


def _wait(body: Mapping[str, Any]) -> bool:
    wait = body.get("wait", True)
    if not isinstance(wait, bool):
        raise _refused("wait must be true or false")
    return wait


def _key(body: Mapping[str, Any]) -> str:
    key = body.get("key", "")
    if not isinstance(key, str) or len(key) > MAX_KEY or not key.isprintable():
        raise _refused(f"key must be text of at most {MAX_KEY} printable characters")
    return key


def _refused(why: str) -> RequestRefused:
    return RequestRefused(RefusalStatus.INVALID_REQUEST, f"The request can't be read: {why}.")
