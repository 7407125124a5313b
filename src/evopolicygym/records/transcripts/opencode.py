"""opencode's ``run --format json``: a model's answer is between ``step_start`` and ``step_finish``."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from evopolicygym.records.transcripts.steps import ConversationSteps, StepSource


def read(event: Mapping[str, Any], steps: ConversationSteps) -> None:
    """Add an event."""
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
