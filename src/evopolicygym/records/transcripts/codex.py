"""Codex's ``exec --json``: an item for each message or action, without times, and with tokens for each turn only."""

from collections.abc import Mapping
from typing import Any

from evopolicygym.records.transcripts.steps import ConversationSteps, StepSource

NOT_ARGUMENTS = frozenset({"id", "type", "status", "aggregated_output", "exit_code", "result", "error"})
"""Keys of an item that are not arguments of its call."""


def read(event: Mapping[str, Any], steps: ConversationSteps) -> None:
    """Add an event; items are added once they are completed."""
    match event["type"]:
        case "item.completed":
            _item(event["item"], steps)
        case "turn.failed":
            steps.add(StepSource.SYSTEM, event["error"]["message"])
        case _:
            return


def _item(item: Mapping[str, Any], steps: ConversationSteps) -> None:
    match item["type"]:
        case "agent_message":
            steps.latest().message = item["text"]
        case "reasoning":
            steps.add(StepSource.AGENT).reasoning = item["text"]
        case "error":
            steps.add(StepSource.SYSTEM, item["message"])
        case kind:
            arguments = {name: value for name, value in item.items() if name not in NOT_ARGUMENTS}
            step = steps.latest()
            call_id = steps.call(step, kind, arguments, item["id"])
            result = next((item[name] for name in ("aggregated_output", "result", "error") if item.get(name)), "")
            steps.result(call_id, result, is_error=item.get("status") == "failed" or bool(item.get("exit_code")))
