"""Gemini CLI's ``-o stream-json``: messages in pieces, calls and results separately, tokens for the session only."""

from collections.abc import Mapping
from typing import Any

from evopolicygym.records.transcripts.steps import ConversationSteps, StepSource


def read(event: Mapping[str, Any], steps: ConversationSteps) -> None:
    """Add an event."""
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
