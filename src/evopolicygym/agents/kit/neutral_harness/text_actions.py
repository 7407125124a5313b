"""Finds the actions in a model's text: many models write a tool's call as text, whatever the request offers.

Each action becomes a bash command. A call is JSON with the tool's name, in a fenced block, between tags or alone, or
the tags of a function with its parameters. A block of shell is run. A block headed by a file's path is that file.
"""

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

OPENING = re.compile(r"\s{0,8}(`{3,}|~{3,})\s*([^`]*)")
TAG = re.compile(r"<(tool_call|tools|function_call|tool)>")
FUNCTION, PARAMETER = "<function=", "<parameter="
SHELLS = frozenset({"bash", "sh", "shell", "console", "zsh"})
PATH = re.compile(r"(?:system|notes)/[\w./-]+")
"""A file that the agent may write."""
HEADING = re.compile(
    r"^[#>*`\s\d.]*(?:file(?:name)?:?\s*)?[`*\"']*((?:system|notes)/[\w./-]+)[`*\"']*:?\s*$", re.IGNORECASE
)
COMMENT = re.compile(r"\A\s*(?:#|//)\s*((?:system|notes)/[\w./-]+)\s*\n")
PROMPT = re.compile(r"^\$ ", re.MULTILINE)
CALLED = re.compile(r'"(?:name|tool|action|function)"\s*:\s*"([\w./-]{1,64})"')
ARGUMENTS = re.compile(r'"(?:arguments|parameters|input|args)"\s*:')
MOST_TEXT = 200_000
"""Characters of an answer that are searched."""
MOST_ACTIONS = 20
"""Actions of one answer; further ones are left out."""


@dataclass(frozen=True, slots=True)
class TextAction:
    """An action that a text holds."""

    command: str
    position: int
    """Where it begins in the text."""


def actions_in(text: str) -> list[str]:
    """Return the bash commands of all actions in a text, in order."""
    text = text[:MOST_TEXT]
    blocks = list(_blocks(text))
    rest = list(text)
    for block in blocks:  # what is in a block is no tag of the text
        rest[block.start : block.end] = " " * (block.end - block.start)
    outside = "".join(rest)
    actions = [*_fenced(blocks), *_tagged(outside), *_functions(outside)]
    if not actions and (command := _command_of(_parse(text.strip()))):
        actions = [TextAction(command, 0)]
    return [action.command for action in sorted(actions, key=lambda action: action.position)][:MOST_ACTIONS]


def tools_called(text: str) -> list[str]:
    """Return the names of the tools that JSON in a text calls, whether there are such tools or not."""
    text = text[:MOST_TEXT]
    return list(dict.fromkeys(CALLED.findall(text))) if ARGUMENTS.search(text) else []


def blocks_of(text: str) -> list[tuple[str, str]]:
    """Return the fenced blocks of a text: what follows the opening fence, and the content."""
    return [(block.info, block.content) for block in _blocks(text[:MOST_TEXT])]


@dataclass(frozen=True, slots=True)
class _Block:
    """A fenced block of a text."""

    info: str
    """What follows the opening fence."""
    content: str
    before: str
    """The line before it that is not empty."""
    start: int
    end: int


def _blocks(text: str) -> Iterator[_Block]:
    """Yield the fenced blocks of a text; one that is never closed is none."""
    fence, info, content, start, position, before = "", "", [""], 0, 0, ""
    for line in text.splitlines(keepends=True):
        opening = None if fence else OPENING.fullmatch(line.rstrip("\n"))
        if fence and line.strip() == fence:
            yield _Block(info, "".join(content), before, start, position + len(line))
            fence, before = "", ""
        elif fence:
            content.append(line)
        elif opening:
            fence, info, content, start = opening[1], opening[2].strip(), [], position
        elif line.strip():
            before = line.strip()
        position += len(line)


def _fenced(blocks: Sequence[_Block]) -> Iterator[TextAction]:
    for block in blocks:
        language, _, rest = block.info.partition(" ")
        named = PATH.fullmatch(rest.strip()) or PATH.fullmatch(language)
        heading = HEADING.match(block.before) or COMMENT.match(block.content)
        if language.lower() in SHELLS:
            yield TextAction(PROMPT.sub("", block.content), block.start)
        elif named or heading:
            path = named[0] if named else heading[1] if heading else ""
            yield TextAction(_writing(path, block.content), block.start)
        elif command := _command_of(_parse(block.content)):
            yield TextAction(command, block.start)
        else:
            for action in (*_tagged(block.content), *_functions(block.content)):
                yield TextAction(action.command, block.start + action.position)


def _tagged(text: str) -> Iterator[TextAction]:
    position, unclosed = 0, set[str]()
    while opening := TAG.search(text, position):
        tag, position = opening[1], opening.end()
        end = -1 if tag in unclosed else text.find(f"</{tag}>", position)
        if end < 0:
            unclosed.add(tag)
            continue
        if command := _command_of(_parse(text[position:end].strip())):
            yield TextAction(command, opening.start())
        position = end


def _functions(text: str) -> Iterator[TextAction]:
    """Yield the calls of the form ``<function=bash><parameter=command>…``."""
    before, *calls = text.split(FUNCTION)
    position = len(before)
    for call in calls:
        name, _, body = call.partition("</function>")[0].partition(">")
        for parameter in body.split(PARAMETER)[1:]:
            key, _, value = parameter.partition("</parameter>")[0].partition(">")
            if (name, key) == ("bash", "command") and value.strip():
                yield TextAction(value.strip("\n"), position)
                break
        position += len(FUNCTION) + len(call)


def _parse(text: str) -> Any:  # noqa: ANN401 - any JSON
    try:
        return json.loads(text, strict=False)  # models break lines inside of texts
    except (ValueError, RecursionError):
        return None


def _command_of(call: Any) -> str:  # noqa: ANN401 - any JSON
    """Return the command of a call of the tool; empty if it is none."""
    if isinstance(call, list):
        return "\n".join(filter(None, map(_command_of, call)))
    if not isinstance(call, dict):
        return ""
    inner = call.get("function")
    call = inner if isinstance(inner, dict) else call
    name = call.get("name") or call.get("tool") or call.get("action") or call.get("function")
    arguments = next((call[key] for key in ("arguments", "parameters", "input", "args") if key in call), None)
    if isinstance(arguments, str):
        arguments = _parse(arguments) or {"command": arguments}
    if name is None and set(call) == {"command"}:
        name, arguments = "bash", call
    if name != "bash":
        return ""
    command = (arguments if isinstance(arguments, dict) else call).get("command")
    return command if isinstance(command, str) else ""


def _writing(path: str, content: str) -> str:
    """Return the command that writes a file."""
    end = f"END_{sha256(content.encode()).hexdigest()[:12]}"
    directory = shlex.quote(path.rpartition("/")[0])
    body = content.rstrip("\n")
    return f"mkdir -p {directory} && cat > {shlex.quote(path)} <<'{end}'\n{body}\n{end}\necho wrote {path}"
