"""Qwen Code as an agent."""

import json
from collections.abc import Mapping, Sequence

from evopolicygym.agents.kit.tool import Event, Tool, ToolEvent, ToolTask, make_tool_agent, tokens
from evopolicygym.core.agent import Agent, AgentConfig
from evopolicygym.model_proxy.formats import ApiFormat
from evopolicygym.model_proxy.upstream import ModelAddress

SETTINGS = {
    "general": {"disableAutoUpdate": True},
    "privacy": {"usageStatisticsEnabled": False},
}


class Qwen(Tool):
    """Qwen Code. Its usage counts from the start of the conversation; reasoning is part of the output."""

    program = "qwen"
    install = "npm install -g @qwen-code/qwen-code@0.24.4"
    wire = ApiFormat.CHAT
    url, key = "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "DASHSCOPE_API_KEY"
    usage_is_cumulative = True
    efforts = ("low", "medium", "high", "xhigh", "max")

    def arguments(self, task: ToolTask) -> Sequence[str]:
        """Return the program's arguments."""
        again = ("--resume", task.conversation) if task.conversation else ()
        plain = ("--auth-type", "openai", "--approval-mode", "yolo", "-o", "stream-json")
        return (task.prompt, "-m", task.model, *plain, *again)

    def files(self, model: str, endpoint: ModelAddress) -> Mapping[str, str]:  # noqa: ARG002 - the same for any
        """Return its settings."""
        thinking = {"generationConfig": {"reasoning": {"effort": self.effort}}} if self.effort else {}
        return {".qwen/settings.json": json.dumps({**SETTINGS, "model": {"skipNextSpeakerCheck": True, **thinking}})}

    def environment(self, model: str, endpoint: ModelAddress) -> Mapping[str, str]:
        """Return the tool's environment variables."""
        return {**endpoint.environment, "OPENAI_MODEL": model}

    def parse_event(self, event: Event) -> ToolEvent:
        """Return the content of an event."""
        match event["type"]:
            case "system":
                return ToolEvent(conversation=event.get("session_id", ""))
            case "result":
                message = str(event.get("result") or (event.get("error") or {}).get("message") or event["subtype"])
                names = {"input": "input_tokens", "cached_input": "cache_read_input_tokens", "output": "output_tokens"}
                error = message if event["is_error"] else ""
                return ToolEvent(event["session_id"], message, error=error, usage=tokens(event["usage"], **names))
            case _:
                return ToolEvent()


ABOUT = Qwen.about("Alibaba's Qwen Code")


def make(config: AgentConfig) -> Agent:
    """Return the agent; raise ``UsageError`` if the tool isn't installed or an option is invalid."""
    return make_tool_agent(Qwen(config.effort), config)
