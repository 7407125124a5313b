"""Transcripts that agents of ours keep: of ``neutral``, and of the optimisers that ask a model."""

from collections.abc import Mapping
from typing import Any

from evopolicygym.records.transcripts.steps import ConversationSteps, StepSource


def read(event: Mapping[str, Any], steps: ConversationSteps) -> None:
    """Add what a line says."""
    time = event["time"]
    match event["role"]:
        case "assistant":
            step = steps.add(StepSource.AGENT, event["text"], time)
            for command in event.get("commands") or ():
                steps.call(step, "bash", {} if command is None else {"command": command})
        case "tool":
            asked = next(one for one in reversed(steps.steps) if one.source is StepSource.AGENT)
            steps.result(asked.calls[len(asked.results)].id, event["text"])
        case "user":
            steps.add(StepSource.USER, event["text"], time)
        case "judge":
            played = {name: value for name, value in event.items() if name not in {"time", "role"}}
            step = steps.latest(time)
            steps.result(steps.call(step, "evaluate", {}), played)
        case _:
            steps.add(StepSource.SYSTEM, event["text"], time)
