"""Moonshot's Kimi Code as an agent."""

from collections.abc import Mapping, Sequence

from evopolicygym.agents.kit.tool import Event, Tool, ToolEvent, ToolTask, make_tool_agent
from evopolicygym.core.agent import Agent, AgentConfig
from evopolicygym.model_proxy.formats import ApiFormat
from evopolicygym.model_proxy.upstream import ModelAddress


class KimiCode(Tool):
    """Kimi Code. It prints messages and no usage."""

    program = "kimi"
    install = "npm install -g @moonshot-ai/kimi-code@2.1.0 (it needs Node 22 or later)"
    wire = ApiFormat.CHAT
    url, key = "https://api.moonshot.ai/v1", "MOONSHOT_API_KEY"

    def arguments(self, task: ToolTask) -> Sequence[str]:
        """Return the program's arguments."""
        again = ("-S", task.conversation) if task.conversation else ()
        return ("-p", task.prompt, "--output-format", "stream-json", *again)

    def environment(self, model: str, endpoint: ModelAddress) -> Mapping[str, str]:
        """Return the tool's environment variables."""
        settings = {"BASE_URL": endpoint.address, "API_KEY": endpoint.key, "PROVIDER_TYPE": "openai", "NAME": model}
        named = {f"KIMI_MODEL_{name}": value for name, value in settings.items()}
        return {**named, "KIMI_CODE_NO_AUTO_UPDATE": "1", "KIMI_DISABLE_TELEMETRY": "1"}

    def parse_event(self, event: Event) -> ToolEvent:
        """Return the content of an event."""
        if event.get("role") == "assistant" and isinstance(event.get("content"), str):
            return ToolEvent(message=event["content"])
        return ToolEvent(conversation=event.get("session_id") or "")


ABOUT = KimiCode.about("Moonshot's Kimi Code")


def make(config: AgentConfig) -> Agent:
    """Return the agent; raise ``UsageError`` if the tool isn't installed or an option is invalid."""
    return make_tool_agent(KimiCode(), config)
