"""What the calls of a transcript did: commands of shells, files that were written, pages that were asked for.

Tools name their arguments differently; which ones mean the same is a table here. Reading the transcripts themselves is
described in ``records/transcripts/``.
"""

import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from evopolicygym.analysis.conduct.finding import Place
from evopolicygym.analysis.conduct.material import ToolUse
from evopolicygym.analysis.conduct.shell_history import ShellHistory
from evopolicygym.records.transcripts.steps import CalledTool, ConversationStep

COMMAND = ("command", "cmd", "script")
PATH = ("file_path", "filePath", "path", "absolute_path", "target_file", "filename")
CONTENT = ("content", "contents", "file_text", "text")
OLD = ("old_string", "oldString", "old_str")
NEW = ("new_string", "newString", "new_str")
DIRECTORY = ("workdir", "cwd", "directory", "dir_path")


def follow_transcript(steps: Iterable[ConversationStep], history: ShellHistory, file: str) -> None:
    """Add what an agent's calls did, in their order."""
    for step in steps:
        for call in step.calls:
            _follow(call, history, Place(file, call.line))


def _follow(call: CalledTool, history: ShellHistory, place: Place) -> None:
    arguments = call.arguments
    if command := _command(arguments):
        history.follow(command, place, _first(arguments, DIRECTORY))
        return
    path = _first(arguments, PATH)
    if path and (content := _first(arguments, CONTENT)):
        history.write(path, content, place)
        return
    listed = arguments.get("edits")
    edits = [one for one in (listed if isinstance(listed, list) else [arguments]) if isinstance(one, Mapping)]
    for edit in edits:
        history.edit(path, _first(edit, OLD), _first(edit, NEW), place)
    if path and any(_first(edit, OLD) for edit in edits):
        return
    if code := _first(arguments, ("code",)):
        history.run_python(code, place)
    history.material.tools.append(ToolUse(call.name, arguments, place))


def _command(arguments: Mapping[str, Any]) -> str:
    """Return the command of a shell that is called, whether it came as a text or as words."""
    for name in COMMAND:
        match arguments.get(name):
            case str(text):
                return text
            case [*words] if words and all(isinstance(word, str) for word in words):
                return shlex.join(words)
    return ""


def _first(arguments: Mapping[str, Any], names: Iterable[str]) -> str:
    return next((value for name in names if isinstance(value := arguments.get(name), str)), "")
