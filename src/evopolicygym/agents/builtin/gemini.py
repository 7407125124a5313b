"""Google's Gemini CLI as an agent."""

import json
from collections.abc import Mapping, Sequence

from evopolicygym.agents.kit.tool import Event, Tool, ToolEvent, ToolTask, make_tool_agent, tokens
from evopolicygym.core.agent import Agent, AgentConfig
from evopolicygym.model_proxy.formats import ApiFormat
from evopolicygym.model_proxy.upstream import ModelAddress

SETTINGS = {
    "security": {"auth": {"selectedType": "gemini-api-key"}},  # otherwise it asks, and exits with code 41
    "general": {"disableAutoUpdate": True, "disableUpdateNag": True},
    "privacy": {"usageStatisticsEnabled": False},
    "model": {"skipNextSpeakerCheck": True},
    "tools": {"exclude": ["google_web_search", "web_fetch"]},
}


class Gemini(Tool):
    """Gemini CLI. Its usage is for one call; its output excludes reasoning."""

    program = "gemini"
    install = "npm install -g @google/gemini-cli@0.61.0"
    wire = ApiFormat.GEMINI
    url, key = "https://generativelanguage.googleapis.com", "GEMINI_API_KEY"
    efforts = ("minimal", "low", "medium", "high")

    def arguments(self, task: ToolTask) -> Sequence[str]:
        """Return the program's arguments."""
        again = ("--resume", task.conversation) if task.conversation else ()
        plain = ("--approval-mode", "yolo", "-o", "stream-json", "--skip-trust")
        return ("-p", task.prompt, "-m", task.model, *plain, *again)

    def files(self, model: str, endpoint: ModelAddress) -> Mapping[str, str]:  # noqa: ARG002 - the same for any
        """Return its settings."""
        thinking = {"generateContentConfig": {"thinkingConfig": {"thinkingLevel": self.effort.upper()}}}
        override = {"match": {"model": model}, "modelConfig": thinking}
        chosen = {"modelConfigs": {"customOverrides": [override]}} if self.effort else {}
        return {".gemini/settings.json": json.dumps(SETTINGS | chosen)}

    def parse_event(self, event: Event) -> ToolEvent:
        """Return the content of an event."""
        match event["type"]:
            case "init":
                return ToolEvent(conversation=event["session_id"])
            case "message" if event["role"] == "assistant":
                return ToolEvent(message=event["content"], continues=bool(event.get("delta")))
            case "result":
                error = "" if event["status"] == "success" else str((event.get("error") or {}).get("message", "failed"))
                counts = event.get("stats") or {}
                names = {"input": "input_tokens", "cached_input": "cached", "output": "output_tokens"}
                return ToolEvent(error=error, usage=tokens(counts, **names))
            case _:
                return ToolEvent()


ABOUT = Gemini.about("Google's Gemini CLI")


def make(config: AgentConfig) -> Agent:
    """Return the agent; raise ``UsageError`` if the tool isn't installed or an option is invalid."""
    return make_tool_agent(Gemini(config.effort), config)
