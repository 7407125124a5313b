"""Reading agents' transcripts: a function for each format, which adds an event to the steps of a conversation.

It may raise for an unexpected event: the line is skipped and counted.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evopolicygym.core import regular_file
from evopolicygym.core.errors import RecordError
from evopolicygym.records.conversation import (
    ConversationStep,
    ConversationSteps,
    StepSource,
    as_arguments,
    as_text,
)
from evopolicygym.records.reader import RunRecord

Read = Callable[[Mapping[str, Any], ConversationSteps], None]
CODEX_NOT_ARGUMENTS = frozenset({"id", "type", "status", "aggregated_output", "exit_code", "result", "error"})
"""Keys of an item of Codex that are not arguments of its call."""
WITHOUT_MODEL = frozenset({"policy", "random", "random_search", "reference", "scripted", "tuner"})
"""Agents of this package that call no model, so that there is no conversation."""
UNREADABLE: Mapping[str, str] = {
    "command": "it is a user's program, with any output",
    "function": "a function writes none",
    "inspect_ai": "Inspect keeps its own log",
    "mini_swe_agent": "it prints its conversation as plain text",
    "outside": "an external agent keeps its own",
    "shell": "a person in a shell writes none",
    **dict.fromkeys(sorted(WITHOUT_MODEL), "it calls no model"),
}
"""Agents of this package whose transcripts are not read, and why."""
MAX_BYTES = 65 << 20
"""Bytes of a transcript that are read, which is the most that a run keeps."""
MAX_LINE = 8 << 20
"""Bytes of a line; longer lines are split."""
MAX_SEARCHED = 1 << 16
"""Bytes of a line in which a submission is looked for."""
_SUBMISSION = re.compile(rb"submission (\d{1,6}) (?:accepted|is taken)|(?:submit_id|\"submission)\\?\"?: ?(\d{1,6})")
"""A submission in calls and answers of the judge's client; its first versions said "is taken"."""


def read_claude_code(event: Mapping[str, Any], steps: ConversationSteps) -> None:
    """Add an event of Claude Code's ``--output-format stream-json``, which Qwen Code prints too.

    A model's answer comes in several events, each with a block and all with the same message id. Output tokens are
    counted when the answer starts, and so are not read.
    """
    match event["type"]:
        case "system":
            steps.version = event.get("claude_code_version") or event.get("qwen_code_version") or steps.version
        case "assistant":
            _add_claude_answer(event["message"], steps, str(event.get("timestamp") or ""))
        case "user":
            _add_claude_input(event["message"]["content"], steps, str(event.get("timestamp") or ""))
        case _:
            return


def _add_claude_answer(message: Mapping[str, Any], steps: ConversationSteps, time: str) -> None:
    step = _claude_step(message.get("id"), steps, time)
    step.model = str(message.get("model") or "")
    for block in message["content"]:
        match block["type"]:
            case "text":
                step.message = "\n".join(filter(None, (step.message, block["text"])))
            case "thinking":
                step.reasoning = "\n".join(filter(None, (step.reasoning, block["thinking"])))
            case "tool_use":
                steps.call(step, block["name"], block["input"], block["id"])
    if usage := message.get("usage"):
        inputs = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        step.usage = {
            "input": sum(usage.get(name) or 0 for name in inputs),
            "cached_input": usage.get("cache_read_input_tokens") or 0,
        }


def _claude_step(message_id: object, steps: ConversationSteps, time: str) -> ConversationStep:
    """Return the step of a message: the latest step if it has the same id, else a new step."""
    if message_id and steps.message_id == message_id:
        return steps.steps[-1]
    steps.message_id = message_id
    return steps.add(StepSource.AGENT, time=time)


def _add_claude_input(content: object, steps: ConversationSteps, time: str) -> None:
    if isinstance(content, str):
        steps.add(StepSource.USER, content, time)
        return
    assert isinstance(content, list)  # noqa: S101 - the caller skips other events
    for block in content:
        if block["type"] == "tool_result":
            steps.result(block["tool_use_id"], block["content"], is_error=bool(block.get("is_error")))
        else:
            steps.add(StepSource.USER, as_text(block), time)


def read_qwen(event: Mapping[str, Any], steps: ConversationSteps) -> None:
    """Add an event of Qwen Code's ``-o stream-json``: Claude Code's format, with cached tokens in the input tokens."""
    read_claude_code(event, steps)
    if event["type"] == "assistant" and (usage := event["message"].get("usage")):
        steps.steps[-1].usage = {
            "input": usage["input_tokens"],
            "cached_input": usage.get("cache_read_input_tokens") or 0,
            "output": usage["output_tokens"],
        }


def read_codex(event: Mapping[str, Any], steps: ConversationSteps) -> None:
    """Add an event of Codex's ``exec --json``: an item for each message or action, without times."""
    match event["type"]:
        case "item.completed":
            _add_codex_item(event["item"], steps)
        case "turn.failed":
            steps.add(StepSource.SYSTEM, event["error"]["message"])
        case _:
            return


def _add_codex_item(item: Mapping[str, Any], steps: ConversationSteps) -> None:
    match item["type"]:
        case "agent_message":
            steps.latest().message = item["text"]
        case "reasoning":
            steps.add(StepSource.AGENT).reasoning = item["text"]
        case "error":
            steps.add(StepSource.SYSTEM, item["message"])
        case kind:
            arguments = {name: value for name, value in item.items() if name not in CODEX_NOT_ARGUMENTS}
            step = steps.latest()
            call_id = steps.call(step, kind, arguments, item["id"])
            result = next((item[name] for name in ("aggregated_output", "result", "error") if item.get(name)), "")
            steps.result(call_id, result, is_error=item.get("status") == "failed" or bool(item.get("exit_code")))


def read_gemini(event: Mapping[str, Any], steps: ConversationSteps) -> None:
    """Add an event of Gemini CLI's ``-o stream-json``: messages in pieces, calls and results separately."""
    time = str(event.get("timestamp") or "")
    match event["type"]:
        case "message" if event["role"] == "assistant":
            steps.latest(time).message += event["content"]
        case "message":
            steps.add(StepSource.USER, event["content"], time)
        case "tool_use":
            steps.call(steps.latest(time), event["tool_name"], event["parameters"], event["tool_id"])
        case "tool_result":
            failed = event.get("status") == "error"
            steps.result(event["tool_id"], event.get("output") or event.get("error") or "", is_error=failed)
        case "error":
            steps.add(StepSource.SYSTEM, str(event.get("message", "")), time)
        case _:
            return


def read_kimi_code(event: Mapping[str, Any], steps: ConversationSteps) -> None:
    """Add a message of Kimi Code's ``--output-format stream-json``, in the format of OpenAI's API.

    Other lines, such as hints on how to resume, are ignored.
    """
    match event.get("role"):
        case "assistant":
            step = steps.add(StepSource.AGENT, as_text(event.get("content")))
            step.reasoning = as_text(event.get("reasoning_content"))
            for call in event.get("tool_calls") or ():
                steps.call(step, call["function"]["name"], call["function"]["arguments"], call["id"])
        case "tool":
            steps.result(event["tool_call_id"], event["content"])
        case "user":
            steps.add(StepSource.USER, as_text(event["content"]))
        case "meta" if event.get("type") == "system.version":
            steps.version = event["version"]
        case _:
            return


def read_opencode(event: Mapping[str, Any], steps: ConversationSteps) -> None:
    """Add an event of opencode's ``run --format json``: an answer is between ``step_start`` and ``step_finish``."""
    part = event.get("part") or {}
    time = datetime.fromtimestamp(event["timestamp"] / 1000, UTC).isoformat(timespec="milliseconds")
    if event["type"] == "step_start":
        steps.add(StepSource.AGENT, time=time)
        return
    latest = next((step for step in reversed(steps.steps) if step.source is StepSource.AGENT), None)
    step = latest or steps.add(StepSource.AGENT, time=time)
    match event["type"]:
        case "text":
            step.message = "\n".join(filter(None, (step.message, part["text"])))
        case "reasoning":
            step.reasoning = "\n".join(filter(None, (step.reasoning, part["text"])))
        case "tool_use":
            state = part["state"]
            call_id = steps.call(step, part["tool"], state["input"], part["callID"])
            steps.result(call_id, state.get("output") or state.get("error"), is_error=state["status"] == "error")
        case "step_finish":
            counts, cache = part["tokens"], part["tokens"]["cache"]
            prompt = counts["input"] + cache["read"] + cache["write"]
            output = counts["output"] + counts["reasoning"]
            step.usage = {"input": prompt, "cached_input": cache["read"], "output": output}
        case "error":
            error = event["error"]
            steps.add(StepSource.SYSTEM, str((error.get("data") or {}).get("message") or error["name"]), time)


def read_harness(event: Mapping[str, Any], steps: ConversationSteps) -> None:
    """Add an event of an agent of this package: ``neutral``, or an optimiser that calls a model."""
    time = event["time"]
    match event["role"]:
        case "assistant":
            step = steps.add(StepSource.AGENT, event["text"], time)
            for command in event.get("commands") or ():
                steps.call(step, "bash", {} if command is None else {"command": command})
        case "tool":
            caller = next(step for step in reversed(steps.steps) if step.source is StepSource.AGENT)
            steps.result(caller.calls[len(caller.results)].id, event["text"])
        case "user":
            steps.add(StepSource.USER, event["text"], time)
        case "judge":
            evaluation = {name: value for name, value in event.items() if name not in {"time", "role"}}
            step = steps.latest(time)
            steps.result(steps.call(step, "evaluate", {}), evaluation)
        case _:
            steps.add(StepSource.SYSTEM, event["text"], time)


ACP_ENDED = frozenset({"completed", "failed"})
"""Statuses of a call of the Agent Client Protocol that has ended."""


def read_acp(event: Mapping[str, Any], steps: ConversationSteps) -> None:
    """Add an event of the client of the Agent Client Protocol, ``agents/kit/acp_client.py``.

    A tool reports a call in pieces: its title and kind first, its arguments and its result in later updates.
    """
    time = str(event.get("time") or "")
    match event["type"]:
        case "prompt":
            steps.add(StepSource.USER, event["text"], time)
        case "thought":
            steps.latest(time).reasoning += event["text"]
        case "message":
            steps.latest(time).message += event["text"]
        case "update":
            _add_acp_update(event["update"], steps, time)
        case "error":
            steps.add(StepSource.SYSTEM, event["message"], time)
        case _:
            return


def _add_acp_update(update: Mapping[str, Any], steps: ConversationSteps, time: str) -> None:
    match update["sessionUpdate"]:
        case "tool_call" | "tool_call_update" as kind:
            call_id = str(update["toolCallId"])
            own, changes = as_arguments(update.get("rawInput") or {}), _acp_changes(update)
            if kind == "tool_call" or not steps.has_call(call_id):
                steps.call(steps.latest(time), _acp_name(update), {**changes, **own} or _acp_title(update), call_id)
            elif own or changes:
                steps.amend(call_id, {**changes, **(own or steps.arguments_of(call_id))})
            if update.get("status") in ACP_ENDED:
                steps.result(call_id, _acp_result(update), is_error=update["status"] == "failed")
        case "user_message_chunk":
            steps.add(StepSource.USER, as_text(update["content"]), time)
        case _:
            return


def _acp_name(update: Mapping[str, Any]) -> str:
    """Return what a call does in the protocol's words, such as ``execute`` or ``fetch``, else its title."""
    kind = update.get("kind")
    return str(update.get("title") or "tool") if kind in (None, "other") else str(kind)


def _acp_changes(update: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes of files that an update has, as arguments of a tool that edits."""
    parts = update.get("content")
    changes = [part for part in parts if part.get("type") == "diff"] if isinstance(parts, list) else []
    if not changes:
        return {}
    first = changes[0]
    if len(changes) == 1 and not first.get("oldText"):
        return {"path": first["path"], "content": first["newText"]}
    edits = [{"old_string": part.get("oldText") or "", "new_string": part["newText"]} for part in changes]
    return {"path": first["path"], "edits": edits}


def _acp_title(update: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a call's title tells of its arguments, for tools that don't report these: of a shell, the command."""
    title = str(update.get("title") or "")
    if not title:
        return {}
    if update.get("kind") == "execute":
        return {"command": title.strip("`")}
    locations = update.get("locations") or ()
    return {"title": title, **({"path": locations[0]["path"]} if locations else {})}


def _acp_result(update: Mapping[str, Any]) -> str:
    parts = update.get("content")
    texts = [as_text(part["content"]) for part in parts if "content" in part] if isinstance(parts, list) else []
    return "\n".join(filter(None, texts)) or as_text(update.get("rawOutput"))


READERS: Mapping[str, Read] = {
    "acp": read_acp,
    "claude_code": read_claude_code,
    "codex": read_codex,
    "gemini": read_gemini,
    "gepa": read_harness,
    "kimi_code": read_kimi_code,
    "neutral": read_harness,
    "opencode": read_opencode,
    "openevolve": read_harness,
    "qwen": read_qwen,
    "rewrite": read_harness,
}
"""Readers by the agent's name."""


class SubmissionOffsets:
    """The places in a transcript that tell of submissions, found line by line."""

    def __init__(self) -> None:
        self.offsets: dict[int, int] = {}
        """The place of each submission, by its number."""
        self._printed: set[int] = set()

    def add(self, line: bytes, place: int) -> None:
        """Look at a line that has a place."""
        for item in _SUBMISSION.finditer(line[:MAX_SEARCHED]):
            number, is_event = int(item.group(1) or item.group(2)), line.startswith(b"{")
            if number not in self.offsets or (number in self._printed and is_event and item.group(1)):
                self.offsets[number] = place  # some tools print a command's output before the event that has it
                (self._printed.discard if is_event else self._printed.add)(number)


@dataclass(frozen=True, slots=True)
class Transcript:
    """The steps of a transcript."""

    steps: list[ConversationStep]
    version: str
    unread: int
    """The number of skipped lines: warnings, and events that the reader doesn't know."""
    submissions: Mapping[int, int] = field(default_factory=dict)
    """The number of steps up to the one that tells of a submission."""


def read_transcript(agent: str, path: Path, root: Path) -> Transcript | None:
    """Return an agent's transcript; None if it doesn't exist. The agent must be a key of ``READERS``."""
    read, steps, unread, submissions = READERS[agent], ConversationSteps(), 0, SubmissionOffsets()
    try:
        for steps.line, line in enumerate(transcript_lines(path, root), 1):
            try:
                read(json.loads(line, parse_constant=str), steps)
            except (ValueError, LookupError, TypeError, AttributeError, AssertionError, RecursionError, StopIteration):
                unread += bool(line.strip())
            submissions.add(line, len(steps.steps))
    except FileNotFoundError:
        return None
    except (OSError, RecordError) as error:
        raise RecordError(f"{path}: {error}") from error
    return Transcript(steps.steps, steps.version, unread, submissions.offsets)


def transcript_of(record: RunRecord) -> Transcript | None:
    """Return the transcript of a run's agent; None if there is none, or it has no reader."""
    agent = record.state.opened.agent.name
    return read_transcript(agent, record.paths.transcript, record.paths.root) if agent in READERS else None


def transcript_lines(path: Path, root: Path) -> Iterator[bytes]:
    """Yield a transcript's lines as they are counted, within bounds; raise ``OSError`` or ``RecordError``."""
    left = MAX_BYTES
    with regular_file.reader(path, root) as file:
        while left > 0 and (line := file.readline(MAX_LINE)):
            left -= len(line)
            yield line
