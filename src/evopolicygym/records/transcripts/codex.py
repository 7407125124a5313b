"""Codex's ``exec --json``: an item for each thing that was said or done. It tells no times, and tokens by the turn."""

from collections.abc import Mapping
from typing import Any

from evopolicygym.records.transcripts.steps import ConversationSteps, StepSource

NOT_ARGUMENTS = frozenset({"id", "type", "status", "aggregated_output", "exit_code", "result", "error"})
"""Keys of an item that say what came of it."""


def read(event: Mapping[str, Any], steps: ConversationSteps) -> None:
    """Add what an event says: items count once they are completed."""
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
            made = steps.call(step, kind, arguments, item["id"])
            came = next((item[name] for name in ("aggregated_output", "result", "error") if item.get(name)), "")
            steps.result(made, came, is_error=item.get("status") == "failed" or bool(item.get("exit_code")))
