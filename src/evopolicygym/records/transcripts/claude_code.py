"""Claude Code's ``--output-format stream-json``, which Qwen Code prints too.

A model's answer comes in several events, each with a block and all with the same message id. Only input tokens are
taken: the output tokens are counted when the answer begins.
"""

from collections.abc import Mapping
from typing import Any

from evopolicygym.records.transcripts.steps import ConversationStep, ConversationSteps, StepSource, as_text


def read(event: Mapping[str, Any], steps: ConversationSteps) -> None:
    """Add an event."""
    match event["type"]:
        case "system":
            steps.version = event.get("claude_code_version") or event.get("qwen_code_version") or steps.version
        case "assistant":
            _assistant(event["message"], steps, str(event.get("timestamp") or ""))
        case "user":
            _user(event["message"]["content"], steps, str(event.get("timestamp") or ""))
        case _:
            return


def _assistant(message: Mapping[str, Any], steps: ConversationSteps, time: str) -> None:
    step = _step_for(message.get("id"), steps, time)
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
        whole = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        step.usage = {
            "input": sum(usage.get(name) or 0 for name in whole),
            "cached_input": usage.get("cache_read_input_tokens") or 0,
        }


def _step_for(message_id: object, steps: ConversationSteps, time: str) -> ConversationStep:
    """Return the step of a message: the latest step if it has the same id, else a new step."""
    if message_id and steps.message_id == message_id:
        return steps.steps[-1]
    steps.message_id = message_id
    return steps.add(StepSource.AGENT, time=time)


def _user(content: object, steps: ConversationSteps, time: str) -> None:
    if isinstance(content, str):
        steps.add(StepSource.USER, content, time)
        return
    assert isinstance(content, list)  # noqa: S101 - the caller skips other events
    for block in content:
        if block["type"] == "tool_result":
            steps.result(block["tool_use_id"], block["content"], is_error=bool(block.get("is_error")))
        else:
            steps.add(StepSource.USER, as_text(block), time)
