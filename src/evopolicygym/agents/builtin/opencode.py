"""Opencode as an agent."""

import json
from collections.abc import Mapping, Sequence

from evopolicygym.agents.kit.tool import Event, Tool, ToolEvent, ToolTask, make_tool_agent, tokens
from evopolicygym.core.agent import Agent, AgentConfig
from evopolicygym.model_proxy.formats import ApiFormat
from evopolicygym.model_proxy.upstream import ModelAddress


class OpenCode(Tool):
    """opencode. It reports the usage of each step, without side tasks."""

    program = "opencode"
    install = "npm install -g opencode-ai@1.18.33"
    wire = ApiFormat.CHAT
    url, key = "https://api.openai.com/v1", "OPENAI_API_KEY"
    usage_per_event = True
    efforts = ()

    def arguments(self, task: ToolTask) -> Sequence[str]:
        """Return the program's arguments."""
        again = ("--session", task.conversation) if task.conversation else ()
        return ("run", "--format", "json", "-m", f"proxy/{task.model}", "--auto", *again, task.prompt)

    def files(self, model: str, endpoint: ModelAddress) -> Mapping[str, str]:
        """Return its settings."""
        options = {"baseURL": endpoint.address, "apiKey": "{env:OPENAI_API_KEY}"}
        thinking = {"options": {"reasoningEffort": self.effort}} if self.effort else {}
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "name": "proxy",
            "options": options,
            "models": {model: thinking},
        }
        settings = {
            "provider": {"proxy": provider},
            "model": f"proxy/{model}",
            "small_model": f"proxy/{model}",
            "autoupdate": False,
            "share": "disabled",
            "permission": {"webfetch": "deny"},
        }
        return {".config/opencode/opencode.json": json.dumps(settings)}

    def environment(self, model: str, endpoint: ModelAddress) -> Mapping[str, str]:  # noqa: ARG002 - set in its settings
        """Return the tool's environment variables."""
        quiet = ("OPENCODE_DISABLE_AUTOUPDATE", "OPENCODE_DISABLE_MODELS_FETCH", "OPENCODE_DISABLE_LSP_DOWNLOAD")
        return {**endpoint.environment, **dict.fromkeys(quiet, "1")}

    def parse_event(self, event: Event) -> ToolEvent:
        """Return the content of an event."""
        conversation, part = event.get("sessionID", ""), event.get("part") or {}
        match event["type"]:
            case "text":
                return ToolEvent(conversation, part["text"])
            case "error":
                error = event["error"]
                return ToolEvent(conversation, error=str((error.get("data") or {}).get("message") or error["name"]))
            case "step_finish":
                counts = part["tokens"]
                fresh, cache = tokens(counts, input="input"), tokens(counts["cache"], cached_input="read")
                written = tokens(counts, output="output", reasoning="reasoning")
                written["output"] += written["reasoning"]
                whole = {"input": fresh["input"] + cache["cached_input"], **cache, **written}
                return ToolEvent(conversation, usage=whole)
            case _:
                return ToolEvent(conversation)


ABOUT = OpenCode.about("opencode")


def make(config: AgentConfig) -> Agent:
    """Return the agent; raise ``UsageError`` if the tool isn't installed or an option is invalid."""
    return make_tool_agent(OpenCode(config.effort), config)
