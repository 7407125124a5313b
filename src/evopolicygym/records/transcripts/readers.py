"""Which agent's transcript is read how, and which is not; reading one whole.

A reader is a file of this folder with a function ``read(event, steps)``, which raises as it likes at what is not as
expected: such a line is left out and counted.
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
"""By the agent's name."""
WITHOUT: Mapping[str, str] = {
    "acp": "its client prints events of its own",
    "command": "a program of its user's prints what it likes",
    "function": "a function keeps none",
    "inspect_ai": "Inspect keeps its own log",
    "mini_swe_agent": "it prints its conversation as text for people",
    "outside": "an agent from outside keeps its own",
    "policy": "it asks no model",
    "random": "it asks no model",
    "random_search": "it asks no model",
    "reference": "it asks no model",
    "scripted": "it asks no model",
    "shell": "a person in a shell keeps none",
    "tuner": "it asks no model",
}
"""Agents of ours whose transcripts are not read, and why."""
MOST_BYTES = 65 << 20
"""Of a transcript that is read: the most that a record keeps of one."""
LONGEST_LINE = 8 << 20
"""Bytes; of a longer line the rest is left out."""


@dataclass(frozen=True, slots=True)
class ReadTranscript:
    """A transcript that was read."""

    steps: list[ConversationStep]
    version: str
    unread: int
    """Lines that are no event of the tool's: warnings that it prints, and what its reader doesn't know."""


def read_transcript(agent: str, path: Path, root: Path) -> ReadTranscript | None:
    """Return what the transcript of an agent says; None where there is none. The agent must be one of ``READERS``."""
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
    return ReadTranscript(steps.steps, steps.version, unread)


def _lines(path: Path, root: Path) -> Iterator[bytes]:
    left = MOST_BYTES
    with regular_file.reader(path, root) as file:
        while left > 0 and (line := file.readline(LONGEST_LINE)):
            left -= len(line)
            yield line
