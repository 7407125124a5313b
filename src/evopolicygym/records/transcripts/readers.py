"""Reading an agent's transcript by the reader of its format.

A reader is a module of this folder with a function ``read(event, steps)``. It may raise for an unexpected event: the
line is skipped and counted.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evopolicygym.core import regular_file
from evopolicygym.core.errors import RecordError
from evopolicygym.records.transcripts import claude_code, codex, gemini, harness, kimi_code, opencode, qwen
from evopolicygym.records.transcripts.steps import ConversationStep, ConversationSteps

Read = Callable[[Mapping[str, Any], ConversationSteps], None]
READERS: Mapping[str, Read] = {
    "claude_code": claude_code.read,
    "codex": codex.read,
    "gemini": gemini.read,
    "gepa": harness.read,
    "kimi_code": kimi_code.read,
    "neutral": harness.read,
    "opencode": opencode.read,
    "openevolve": harness.read,
    "qwen": qwen.read,
}
"""Readers by the agent's name."""
UNREADABLE: Mapping[str, str] = {
    "acp": "its client prints its own events",
    "command": "it is a user's program, with any output",
    "function": "a function writes none",
    "inspect_ai": "Inspect keeps its own log",
    "mini_swe_agent": "it prints its conversation as plain text",
    "outside": "an external agent keeps its own",
    "policy": "it calls no model",
    "random": "it calls no model",
    "random_search": "it calls no model",
    "reference": "it calls no model",
    "scripted": "it calls no model",
    "shell": "a person in a shell writes none",
    "tuner": "it calls no model",
}
"""Agents of this package whose transcripts are not read, and why."""
MAX_BYTES = 65 << 20
"""Bytes of a transcript that are read, which is the most that a run keeps."""
MAX_LINE = 8 << 20
"""Bytes of a line; longer lines are split."""


@dataclass(frozen=True, slots=True)
class Transcript:
    """The steps of a transcript."""

    steps: list[ConversationStep]
    version: str
    unread: int
    """The number of skipped lines: warnings, and events that the reader doesn't know."""


def read_transcript(agent: str, path: Path, root: Path) -> Transcript | None:
    """Return an agent's transcript; None if it doesn't exist. The agent must be a key of ``READERS``."""
    read, steps, unread = READERS[agent], ConversationSteps(), 0
    try:
        for steps.line, line in enumerate(_lines(path, root), 1):
            try:
                read(json.loads(line, parse_constant=str), steps)
            except (ValueError, LookupError, TypeError, AttributeError, AssertionError, RecursionError, StopIteration):
                unread += bool(line.strip())
    except FileNotFoundError:
        return None
    except (OSError, RecordError) as error:
        raise RecordError(f"{path}: {error}") from error
    return Transcript(steps.steps, steps.version, unread)


def _lines(path: Path, root: Path) -> Iterator[bytes]:
    left = MAX_BYTES
    with regular_file.reader(path, root) as file:
        while left > 0 and (line := file.readline(MAX_LINE)):
            left -= len(line)
            yield line
