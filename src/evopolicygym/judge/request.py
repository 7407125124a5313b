"""Strict decoding of request bodies."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from evopolicygym.core.errors import RefusalStatus, RequestRefused
from evopolicygym.core.submission import STARTER, Setting
from evopolicygym.core.text import well_formed

MAX_KEY = 200
"""The limit on characters of a key."""
MOST_HYPOTHESIS = 1000
"""The limit on characters of a hypothesis."""
STARTER_WORD = "starter"
MOST_SETTINGS, MOST_SETTING = 64, 200
"""Limits on the parameters set with one submission, and on the characters of a name or text among them."""
_FIELDS = {"env_instances", "wait", "key", "films", "set", "parent", "hypothesis"}


@dataclass(frozen=True, slots=True)
class SubmitRequest:
    """A well-formed submission; the session checks its cases and price."""

    env_instances: object
    wait: bool = True
    """Whether to answer only when the feedback is published."""
    key: str = ""
    """A repeated key returns the same submission."""
    films: object = None
    """Cases to film, in the form of ``env_instances``; None for none."""
    settings: Mapping[str, Setting] = field(default_factory=dict)
    """Values for the policy's parameters, by name."""
    parent: object = None
    """The index of the submission that the policy was made from, or ``"starter"``; None if not given."""
    hypothesis: str = ""
    """What the agent expects of the submission, in its words."""


def parse_submit(body: object) -> SubmitRequest:
    """Return the submission in a decoded JSON body; raise ``RequestRefused`` with the rule and the value."""
    if not isinstance(body, dict):
        raise _refused('the body must be a JSON object such as {"env_instances": "0-3"}')
    if unknown := sorted(set(map(str, body)) - _FIELDS):
        raise _refused(f"unknown field {unknown[0][:60]!r}; known are {', '.join(sorted(_FIELDS))}")
    if "env_instances" not in body:
        raise _refused('env_instances is missing; name train cases such as {"env_instances": "0-3"}')
    return SubmitRequest(
        env_instances=body["env_instances"],
        wait=_wait(body),
        key=_key(body),
        films=body.get("films"),
        settings=_settings(body),
        parent=body.get("parent"),
        hypothesis=_hypothesis(body),
    )


def parse_check(body: object) -> Mapping[str, Setting]:
    """Return the parameters to set for a check of the policy; raise ``RequestRefused``."""
    if not isinstance(body, dict) or body.keys() - {"set"}:
        raise _refused('checking takes no field but set, such as {"set": {"speed": 4.6}}; send that, {} or nothing')
    return _settings(body)


def parse_parent(parent: object, submissions: int) -> int | None:
    """Return the index of the parent that a request names, or ``STARTER``; None if it names none.

    ``submissions`` is the number of submissions so far. Raises ``RequestRefused``.
    """
    if parent is None:
        return None
    if parent == STARTER_WORD:
        return STARTER
    if isinstance(parent, bool) or not isinstance(parent, int) or not 0 <= parent < submissions:
        known = f"0 to {submissions - 1} or " if submissions else ""
        raise _refused(f'parent must be a submission\'s number, {known}"{STARTER_WORD}" for the starter policy')
    return parent


def parse_empty(body: object, what: str) -> None:
    """Raise ``RequestRefused`` if a body that must be empty is not."""
    if body != {}:
        raise _refused(f"{what} takes no fields; send {{}} or nothing")


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


def _settings(body: Mapping[str, Any]) -> Mapping[str, Setting]:
    settings = body.get("set", {})
    if not isinstance(settings, dict) or len(settings) > MOST_SETTINGS:
        raise _refused(f'set must be an object of at most {MOST_SETTINGS} parameters, such as {{"speed": 4.6}}')
    for name, value in settings.items():
        if len(name) > MOST_SETTING or not name.isprintable():
            raise _refused(f"set: a parameter's name has at most {MOST_SETTING} printable characters")
        if not isinstance(value, bool | int | float | str) or (isinstance(value, str) and len(value) > MOST_SETTING):
            raise _refused(f"set: {name} must be a number, true, false or a text of at most {MOST_SETTING} characters")
    return settings


def _hypothesis(body: Mapping[str, Any]) -> str:
    hypothesis = body.get("hypothesis", "")
    if (
        not isinstance(hypothesis, str)
        or len(hypothesis) > MOST_HYPOTHESIS
        or not well_formed(hypothesis) == hypothesis
    ):
        raise _refused(f"hypothesis must be text of at most {MOST_HYPOTHESIS} characters")
    return hypothesis


def _refused(why: str) -> RequestRefused:
    return RequestRefused(RefusalStatus.INVALID_REQUEST, f"The request can't be read: {why}.")
