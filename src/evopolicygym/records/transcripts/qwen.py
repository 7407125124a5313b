"""Qwen Code's ``-o stream-json``: Claude Code's format, except that input tokens include cached ones."""

from collections.abc import Mapping
from typing import Any

from evopolicygym.records.transcripts import claude_code
from evopolicygym.records.transcripts.steps import ConversationSteps


def read(event: Mapping[str, Any], steps: ConversationSteps) -> None:
    """Add an event."""
    claude_code.read(event, steps)
    if event["type"] == "assistant" and (usage := event["message"].get("usage")):
        steps.steps[-1].usage = {
            "input": usage["input_tokens"],
            "cached_input": usage.get("cache_read_input_tokens") or 0,
            "output": usage["output_tokens"],
        }
