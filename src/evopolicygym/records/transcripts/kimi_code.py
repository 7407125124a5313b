"""Kimi Code's ``--output-format stream-json``: the messages of a chat, as OpenAI's interface has them."""

from collections.abc import Mapping
from typing import Any

from evopolicygym.records.transcripts.steps import ConversationSteps, StepSource, as_text


def read(event: Mapping[str, Any], steps: ConversationSteps) -> None:
    """Add what a message says; lines of other kinds, such as how to resume, say nothing."""
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
