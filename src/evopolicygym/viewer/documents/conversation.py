"""The entries of a transcript's page: an agent's messages, its calls of tools with their results, other output.

An agent that ``records.transcripts`` has a reader for is read by it. Of any other, a line is an entry: what its JSON
says, else plain text. All of it is untrusted: it is shown as text, bounded, without a terminal's colours.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evopolicygym.core.text import seconds_of
from evopolicygym.records.conversation import CallResult, ConversationStep, ConversationSteps, StepSource
from evopolicygym.records.transcripts import READERS, Read
from evopolicygym.viewer.documents.document import document
from evopolicygym.viewer.documents.reading import shown
from evopolicygym.viewer.documents.run import ModelUse, usage_of

LONGEST_ENTRY = 8 * 1024
"""Characters of a text that are shown."""
LONGEST_NAME = 40
MOST_CALLS = 200
"""Most calls of one message that are shown."""
ROLES: Mapping[StepSource, str] = {
    StepSource.AGENT: "assistant",
    StepSource.USER: "user",
    StepSource.SYSTEM: "system",
}
_TEXT_KEYS = (
    "text", "thinking", "content", "command", "commands", "arguments", "input", "output", "message", "item", "result",
    "error", "part", "aggregated_output",
)  # fmt: skip
"""Keys under which the tools put what a person wants to read, as far as they have any in common."""
_UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, AssertionError, RecursionError, StopIteration)
"""Errors of a reader for an event that it doesn't know."""

Line = tuple[int, bytes]
"""A line with its offset in the transcript."""


def page_entries(lines: Sequence[Line], agent: str, marks: Mapping[int, Sequence[int]]) -> list[dict[str, Any]]:
    """Return the entries of a page in order, each with the offset ``at`` which it begins.

    ``marks`` are the submissions that lines tell of, by the lines' offsets; each is an entry after its message.
    """
    read = READERS.get(agent)
    items = _read_lines(lines, read, marks) if read else _split_lines(lines, marks)
    return [entry for item in items if (entry := item if isinstance(item, dict) else item.entry()) is not None]


@dataclass(slots=True)
class _Step:
    at: int
    step: ConversationStep

    def entry(self) -> dict[str, Any] | None:
        return _step_entry(self.at, self.step)


@dataclass(slots=True)
class _Text:
    """Lines of plain text that follow each other."""

    at: int
    lines: list[bytes] = field(default_factory=list)

    def entry(self) -> dict[str, Any] | None:
        return _text_entry(self.at, "", "", b"".join(self.lines).decode("utf-8", "backslashreplace"))


Item = _Step | _Text | dict[str, Any]


def _read_lines(lines: Sequence[Line], read: Read, marks: Mapping[int, Sequence[int]]) -> list[Item]:
    items, steps = list[Item](), ConversationSteps()
    for at, line in lines:
        known = len(steps.steps)
        event = _json(line)
        try:
            if event is None:
                _add_text(items, at, line)
            else:
                read(event, steps)
        except _UNREADABLE:
            if event is not None:
                items.append(_text_entry(at, _role(event), _time(event), "\n".join(_texts(event))))
        items += [_Step(at, step) for step in steps.steps[known:]]
        items += _submissions(at, marks)
    return items


def _split_lines(lines: Sequence[Line], marks: Mapping[int, Sequence[int]]) -> list[Item]:
    items = list[Item]()
    for at, line in lines:
        items += _submissions(at, marks)
        event = _json(line)
        if event is None:
            _add_text(items, at, line)
        elif text := "\n".join(_texts(event)):
            items.append(_text_entry(at, _role(event), _time(event), text))
    return items


def _add_text(items: list[Item], at: int, line: bytes) -> None:
    if items and isinstance(items[-1], _Text):
        items[-1].lines.append(line)
    elif line.strip():
        items.append(_Text(at, [line]))


def _submissions(at: int, marks: Mapping[int, Sequence[int]]) -> list[dict[str, Any]]:
    return [submission_entry(at, number) for number in marks.get(at, ())]


def submission_entry(at: int, number: int) -> dict[str, Any]:
    """Return the entry of a submission."""
    return {"role": "submission", "at": at, "submission": number, "text": "", "time": "", "cut": 0}


def _step_entry(at: int, step: ConversationStep) -> dict[str, Any] | None:
    results = {result.call: result for result in step.results if result.call is not None}
    calls = [
        {
            "name": shown(call.name)[:LONGEST_NAME],
            **_excerpt(format_arguments(call.arguments)),
            "result": _result(results.get(call.id)),
        }
        for call in step.calls[:MOST_CALLS]
    ]
    counted = {name: amount for name, amount in step.usage.items() if isinstance(amount, int | float)}
    usage = {"input_tokens": counted.get("input"), "output_tokens": counted.get("output"), "cost_usd": None}
    entry = {
        **_text_entry(at, ROLES[step.source], step.time, step.message),
        "reasoning": _excerpt(step.reasoning) if step.reasoning else None,
        "calls": calls,
        "calls_left_out": len(step.calls) - len(calls),
        "results": [_result(result) for result in step.results[:MOST_CALLS] if result.call is None],
        "usage": usage if counted else None,
    }
    is_empty = not (entry["text"] or entry["reasoning"] or calls or entry["results"] or counted)
    return None if is_empty else entry


def _result(result: CallResult | None) -> dict[str, Any] | None:
    return None if result is None else {**_excerpt(result.text), "is_error": result.is_error}


def _text_entry(at: int, role: str, time: str, text: str) -> dict[str, Any]:
    return {"role": shown(role)[:LONGEST_NAME], "at": at, "time": shown(time)[:LONGEST_NAME], **_excerpt(text)}


def _excerpt(text: str) -> dict[str, Any]:
    whole = shown(text).strip("\n")
    return {"text": whole[:LONGEST_ENTRY], "cut": max(0, len(whole) - LONGEST_ENTRY)}


def format_arguments(arguments: Mapping[str, Any]) -> str:
    """Return a call's arguments as a person reads them: a lone text as it is, others below their names."""
    if len(arguments) == 1 and isinstance(text := next(iter(arguments.values())), str):
        return text
    return "\n".join(_argument(name, value) for name, value in arguments.items())


def _argument(name: str, value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"{name}:\n{text}" if "\n" in text else f"{name}: {text}"


def add_usage(entries: Sequence[dict[str, Any]], requests: Sequence[ModelUse], *, is_first_page: bool) -> None:
    """Add tokens and costs to an agent's messages, from the requests that the model proxy logged.

    A message whose tool counted its input tokens belongs to the request that has as many, if no other has. A message
    with a time belongs to the requests begun since the message before it.
    """
    before = 0.0 if is_first_page else None
    for entry in entries:
        if entry["role"] != "assistant" or "calls" not in entry:
            continue
        said_at = seconds_of(entry["time"])
        if entry["usage"]:
            own = [use for use in requests if use.input_tokens == entry["usage"]["input_tokens"]]
            if len(own) == 1:
                entry["usage"] = document(usage_of(own))
        elif said_at is not None:
            own = [
                use
                for use in requests
                if before_or_at(use, said_at) and (before is None or not before_or_at(use, before))
            ]
            if own := own if before is not None else own[-1:]:
                entry["usage"] = document(usage_of(own))
        before = before if said_at is None else said_at


def before_or_at(use: ModelUse, time: float) -> bool:
    """Return whether a request began at a time or before it."""
    logged = seconds_of(use.time)
    return logged is not None and logged - use.seconds <= time


def _json(line: bytes) -> dict[str, Any] | None:
    if not line.lstrip().startswith(b"{"):
        return None
    try:
        entry = json.loads(line, parse_constant=str)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None


def _role(entry: Mapping[str, Any]) -> str:
    role = entry.get("role") or entry.get("type") or entry.get("kind")
    return role if isinstance(role, str) else ""


def _time(entry: Mapping[str, Any]) -> str:
    return str(entry.get("time") or entry.get("timestamp") or "")


def _texts(entry: Any, depth: int = 0) -> Iterator[str]:  # noqa: ANN401 - any JSON
    """Yield what a JSON entry says, in the order of its keys; the entry itself where nothing of it is known."""
    has_text = False
    if isinstance(entry, str):
        yield entry
        return
    if depth > 6:  # noqa: PLR2004 - deeper than any tool nests what it says
        return
    parts = entry.items() if isinstance(entry, dict) else enumerate(entry) if isinstance(entry, list) else ()
    for key, value in parts:
        if isinstance(key, int) or key in _TEXT_KEYS or (depth and isinstance(value, dict | list)):
            for text in _texts(value, depth + 1):
                has_text = True
                yield text
    if not has_text and not depth:
        yield json.dumps(entry, ensure_ascii=False)
