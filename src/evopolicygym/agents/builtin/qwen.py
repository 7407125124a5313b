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
    """Qwen Code. Its usage counts from the conversation's beginning; reasoning is not distinguished from output."""

    program = "qwen"
    install = "npm install -g @qwen-code/qwen-code@0.24.4"
    wire = ApiFormat.CHAT
    url, key = "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "DASHSCOPE_API_KEY"
    usage_lasts = True
    efforts = ("low", "medium", "high", "xhigh", "max")

    def arguments(self, call: ToolTask) -> Sequence[str]:
        """Return the program's arguments."""
        again = ("--resume", call.conversation) if call.conversation else ()
        plain = ("--auth-type", "openai", "--approval-mode", "yolo", "-o", "stream-json")
        return (call.prompt, "-m", call.model, *plain, *again)

    def files(self, model: str, endpoint: ModelAddress) -> Mapping[str, str]:  # noqa: ARG002 - the same for any
        """Return its settings."""
        thinking = {"generationConfig": {"reasoning": {"effort": self.effort}}} if self.effort else {}
        return {".qwen/settings.json": json.dumps({**SETTINGS, "model": {"skipNextSpeakerCheck": True, **thinking}})}

    def environment(self, model: str, endpoint: ModelAddress) -> Mapping[str, str]:
        """Return the tool's environment variables."""
        return {**endpoint.environment, "OPENAI_MODEL": model}

    def parse_event(self, event: Event) -> ToolEvent:
        """Return what an event says."""
        match event["type"]:
            case "system":
                return ToolEvent(conversation=event.get("session_id", ""))
            case "result":
                said = str(event.get("result") or (event.get("error") or {}).get("message") or event["subtype"])
                names = {"input": "input_tokens", "cached_input": "cache_read_input_tokens", "output": "output_tokens"}
                error = said if event["is_error"] else ""
                return ToolEvent(event["session_id"], said, error=error, usage=tokens(event["usage"], **names))
            case _:
                return ToolEvent()


ABOUT = Qwen.about("Alibaba's Qwen Code")


def make(config: AgentConfig) -> Agent:
    """Return the agent; raise ``UsageError`` where the tool isn't installed or can't be set up so."""
    return make_tool_agent(Qwen(config.effort), config)
