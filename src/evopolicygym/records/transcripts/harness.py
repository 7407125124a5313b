"""Transcripts that agents of this package write: ``neutral``, and the optimisers that call a model."""

from collections.abc import Mapping
from typing import Any

from evopolicygym.records.transcripts.steps import ConversationSteps, StepSource


def read(event: Mapping[str, Any], steps: ConversationSteps) -> None:
    """Add an event."""
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
