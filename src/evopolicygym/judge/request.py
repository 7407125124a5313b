"""What a client may ask of the calls that take a body, decoded once and strictly."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from evopolicygym.core.errors import RefusalStatus, RequestRefused
from evopolicygym.core.submission import STARTER, Setting
from evopolicygym.core.text import well_formed

MAX_KEY = 200
"""The most characters of a key."""
MOST_HYPOTHESIS = 1000
"""The most characters of a hypothesis."""
STARTER_WORD = "starter"
MOST_SETTINGS, MOST_SETTING = 64, 200
"""The most parameters that are set with one submission, and the most characters of a name or a text among them."""
_FIELDS = {"env_instances", "wait", "key", "films", "set", "parent", "hypothesis"}


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
    settings: Mapping[str, Setting] = field(default_factory=dict)
    """Values that parameters of the policy are to have in this submission, by name."""
    parent: object = None
    """The submission that the policy was made from, by its index, or ``"starter"``; None where nothing is said."""
    hypothesis: str = ""
    """What the agent expects of it, in its own words."""


def parse_submit(body: object) -> SubmitRequest:
    """Return the request that a decoded JSON body holds; raise ``RequestRefused`` naming the rule and the value."""
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
    """Return the parameters that are to be set while the policy is checked; raise ``RequestRefused``."""
    if not isinstance(body, dict) or body.keys() - {"set"}:
        raise _refused('checking takes no field but set, such as {"set": {"speed": 4.6}}; send that, {} or nothing')
    return _settings(body)


def parse_parent(asked: object, submissions: int) -> int | None:
    """Return the index of the submission that a request names as its policy's parent, of so many that there are.

    ``STARTER`` stands for the starter policy. Raises ``RequestRefused``.
    """
    if asked is None:
        return None
    if asked == STARTER_WORD:
        return STARTER
    if isinstance(asked, bool) or not isinstance(asked, int) or not 0 <= asked < submissions:
        known = f"0 to {submissions - 1} or " if submissions else ""
        raise _refused(f'parent must be a submission\'s number, {known}"{STARTER_WORD}" for the starter policy')
    return asked


def parse_empty(body: object, what: str) -> None:
    """Refuse a body that holds anything, of a request that says all by its path; raise ``RequestRefused``."""
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
