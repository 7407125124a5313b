"""Actions as text, for models without tool calls.

A fenced block of Python replaces ``policy.py``; ``python other.py`` after the fence names another file. A line
``/submit 8``, ``/submit 8 16`` (from train case 16 on), ``/look``, ``/look 40`` or ``/finish`` acts. Files are written
first. A text with neither looks.
"""

import re
from collections.abc import Mapping
from typing import Any

from evopolicygym.core.errors import RefusalStatus, RequestRefused

FENCED = re.compile(r"^```(?:python|py)[ \t]*(\S*)[ \t]*\n(.*?)^```[ \t]*$", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"^/(submit|look|finish)((?:[ \t]+\d{1,6}){0,2})[ \t]*$", re.MULTILINE | re.ASCII)
NUMBERS: Mapping[str, tuple[str, ...]] = {"submit": ("episodes", "first_case"), "look": ("step",), "finish": ()}
HOW = (
    "Without tool calls: a block of Python fenced by ```python and ``` replaces policy.py, and a line /submit 8, /look "
    "or /finish acts."
)
Action = tuple[str, dict[str, Any]]
"""An action with its arguments."""


def actions_of(step: Mapping[str, Any]) -> list[Action]:
    """Return the actions of a step, which has ``action`` and ``arguments``, or ``text``; raise ``RequestRefused``."""
    match step:
        case {"action": str(action)}:
            return [(action, step.get("arguments") or {})]
        case {"text": str(text)}:
            return read_text(text)
        case _:
            raise RequestRefused(
                RefusalStatus.INVALID_REQUEST,
                "Invalid step: expected an action's name with its arguments, or a text, such as "
                '{"action": "submit", "arguments": {"episodes": 4}} or {"text": "/submit 4"}.',
            )


def read_text(text: str) -> list[Action]:
    """Return the actions of a text: files first, then commands in their order."""
    files: list[Action] = [
        ("write", {"path": found[1] or "policy.py", "content": found[2]}) for found in FENCED.finditer(text)
    ]
    commands: list[Action] = [
        (found[1], dict(zip(NUMBERS[found[1]], map(int, found[2].split()), strict=False)))
        for found in COMMAND.finditer(FENCED.sub("", text))
    ]
    return [*files, *commands] or [("look", {})]
