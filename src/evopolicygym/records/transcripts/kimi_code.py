"""Kimi Code's ``--output-format stream-json``: chat messages in the format of OpenAI's API."""

from collections.abc import Mapping
from typing import Any

from evopolicygym.records.transcripts.steps import ConversationSteps, StepSource, as_text


def read(event: Mapping[str, Any], steps: ConversationSteps) -> None:
    """Add a message; other lines, such as hints on how to resume, are ignored."""
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
