"""What an agent can do in a session: the tools, the check of their arguments, and actions as text.

For models without tool calls, a text acts: a fenced block of Python replaces ``policy.py``; ``python other.py`` after
the fence names another file. A line ``/submit 8``, ``/submit 8 16`` (from train case 16 on), ``/look``, ``/look 40`` or
``/finish`` acts. Files are written first. A text with neither looks.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from evopolicygym.core.errors import RefusalStatus, RequestRefused
from evopolicygym.rollout.checkpoint import MAX_DEPTH, MAX_NAME_BYTES, POLICY_FILE

FENCED = re.compile(r"^```(?:python|py)[ \t]*(\S*)[ \t]*\n(.*?)^```[ \t]*$", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"^/(submit|look|finish)((?:[ \t]+\d{1,6}){0,2})[ \t]*$", re.MULTILINE | re.ASCII)
NUMBERS: Mapping[str, tuple[str, ...]] = {"submit": ("episodes", "first_case"), "look": ("step",), "finish": ()}
HOW = (
    "Without tool calls: a block of Python fenced by ```python and ``` replaces policy.py, and a line /submit 8, /look "
    "or /finish acts."
)
Action = tuple[str, dict[str, Any]]
"""An action with its arguments."""


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a tool."""

    kind: str
    """``string`` or ``integer``, as JSON Schema has it."""
    meaning: str
    needed: bool = False
    default: int | None = None


@dataclass(frozen=True, slots=True)
class Tool:
    """An action of an agent."""

    meaning: str
    arguments: Mapping[str, Argument]

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of its arguments."""
        return {
            "type": "object",
            "properties": {
                name: {"type": each.kind, "description": each.meaning} for name, each in self.arguments.items()
            },
            "required": [name for name, each in self.arguments.items() if each.needed],
            "additionalProperties": False,
        }


TOOLS: Mapping[str, Tool] = {
    "write": Tool(
        "Write a file of the policy; it replaces the file of that name.",
        {
            "path": Argument("string", "The file's path, such as policy.py.", needed=True),
            "content": Argument("string", "Its whole content.", needed=True),
        },
    ),
    "submit": Tool(
        "Play the policy for some train episodes of the budget.",
        {
            "episodes": Argument("integer", "How many; by default an eighth of the budget."),
            "first_case": Argument("integer", "The first of the train cases, from 0.", default=0),
        },
    ),
    "look": Tool(
        "See what the submissions returned, and some steps of the latest one's first episode.",
        {"step": Argument("integer", "The first step to see, from 0.", default=0)},
    ),
    "finish": Tool("End here: the best submission is selected and scored on hidden cases.", {}),
}
"""What an agent can do, by name."""
ACTIONS = (
    "Write `policy.py`, submit it for a few episodes, look at what came of it, and write a better one. Your tools:\n\n"
    + "\n".join(f"- `{name}({', '.join(tool.arguments)})`: {tool.meaning}" for name, tool in TOOLS.items())
    + "\n\nThe starter policy, which is there now, plays at random.\n"
)


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
        ("write", {"path": match[1] or "policy.py", "content": match[2]}) for match in FENCED.finditer(text)
    ]
    commands: list[Action] = [
        (match[1], dict(zip(NUMBERS[match[1]], map(int, match[2].split()), strict=False)))
        for match in COMMAND.finditer(FENCED.sub("", text))
    ]
    return [*files, *commands] or [("look", {})]


def parse_arguments(action: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return an action's arguments with their defaults; raise ``RequestRefused`` where one is not as declared."""
    if action not in TOOLS:
        raise refusal(f"there is no action {action[:60]!r}; there are {', '.join(TOOLS)}")
    if not isinstance(arguments, Mapping):
        raise refusal(f"the arguments of {action} must be an object")
    declared = TOOLS[action].arguments
    if unknown := sorted(map(str, arguments.keys() - declared.keys())):
        takes = f"it takes {', '.join(declared)}" if declared else "it takes none"
        raise refusal(f"{action} has no argument {unknown[0][:60]!r}; {takes}")
    if missing := [name for name, each in declared.items() if each.needed and name not in arguments]:
        raise refusal(f"{action} needs {missing[0]}")
    given = {name: arguments.get(name, each.default) for name, each in declared.items()}
    for name, value in given.items():
        if (
            declared[name].kind == "integer"
            and name in arguments
            and (isinstance(value, bool) or not isinstance(value, int))
        ):
            raise refusal(f"{name} must be an integer, not {str(value)[:60]!r}")
    if given.get("step", 0) < 0:
        raise refusal(f"step must be an integer from 0, not {given['step']}")
    return given


def case_range(episodes: int, first_case: int) -> str:
    """Return the range of train cases that a submission names; raise ``RequestRefused`` for an invalid number."""
    for name, value, least in (("episodes", episodes, 1), ("first_case", first_case, 0)):
        if not least <= value < 1 << 20:
            raise refusal(f"{name} must be an integer from {least}, not {value}")
    return f"{first_case}-{first_case + episodes - 1}"


def parse_path(path: str) -> str:
    """Return a file's path below the policy's directory; raise ``RequestRefused`` if it is invalid."""
    parts = PurePosixPath(path).parts if isinstance(path, str) else ()
    is_valid = parts and len(parts) <= MAX_DEPTH and ".." not in parts and parts[0] != "/"
    if not is_valid or not path.isprintable() or len(path.encode("utf-8", "replace")) > MAX_NAME_BYTES:
        raise refusal(
            f"path must be a path below the policy's directory, such as {POLICY_FILE}, not {str(path)[:60]!r}"
        )
    return PurePosixPath(path).as_posix()


def encode_content(content: str) -> bytes:
    """Return a file's content; raise ``RequestRefused`` if it isn't text."""
    try:
        return content.encode("utf-8")
    except (AttributeError, UnicodeEncodeError) as error:
        raise refusal("content must be text in Unicode") from error


def refusal(why: str) -> RequestRefused:
    """Return the error for an invalid action."""
    return RequestRefused(RefusalStatus.INVALID_REQUEST, f"Invalid request: {why}.")
