"""OpenAI's Codex CLI as an agent."""

import json
from collections.abc import Mapping, Sequence

from evopolicygym.agents.kit.tool import Event, Tool, ToolEvent, ToolTask, make_tool_agent, tokens
from evopolicygym.core.agent import Agent, AgentConfig
from evopolicygym.model_proxy.formats import ApiFormat
from evopolicygym.model_proxy.upstream import ModelAddress

PLAIN = (
    "--json",
    "--skip-git-repo-check",
    "--dangerously-bypass-approvals-and-sandbox",  # it runs in our sandbox, which allows no nested one
    "--disable",
    "plugins",
)
SETTINGS = """\
model = {model}
{effort}model_provider = "proxy"
web_search = "disabled"
check_for_update_on_startup = false

[model_providers.proxy]
name = "proxy"
base_url = {address}
env_key = "OPENAI_API_KEY"
wire_api = "responses"

[analytics]
enabled = false
"""


class Codex(Tool):
    """Codex CLI. Its usage counts from the start of the conversation and has no cost."""

    program = "codex"
    install = "npm install -g @openai/codex@0.169.0"
    wire = ApiFormat.RESPONSES
    url, key = "https://api.openai.com/v1", "OPENAI_API_KEY"
    usage_is_cumulative = True
    efforts = ()

    def arguments(self, task: ToolTask) -> Sequence[str]:
        """Return the program's arguments."""
        again = ("resume", task.conversation) if task.conversation else ()
        return ("exec", *PLAIN, *again, task.prompt)

    def files(self, model: str, endpoint: ModelAddress) -> Mapping[str, str]:
        """Return its settings, with a provider of their own: the built-in one tries other protocols first."""
        effort = f"model_reasoning_effort = {json.dumps(self.effort)}\n" if self.effort else ""
        settings = SETTINGS.format(model=json.dumps(model), effort=effort, address=json.dumps(endpoint.address))
        return {".codex/config.toml": settings}

    def parse_event(self, event: Event) -> ToolEvent:
        """Return the content of an event; items of type error are only warnings."""
        match event["type"]:
            case "thread.started":
                return ToolEvent(conversation=event["thread_id"])
            case "item.completed" if event["item"]["type"] == "agent_message":
                return ToolEvent(message=event["item"]["text"])
            case "turn.completed":
                names = {"input": "input_tokens", "cached_input": "cached_input_tokens", "output": "output_tokens"}
                return ToolEvent(usage=tokens(event["usage"], **names, reasoning="reasoning_output_tokens"))
            case "turn.failed":
                return ToolEvent(error=event["error"]["message"])
            case _:
                return ToolEvent()


ABOUT = Codex.about("OpenAI's Codex CLI")


def make(config: AgentConfig) -> Agent:
    """Return the agent; raise ``UsageError`` if the tool isn't installed or an option is invalid."""
    return make_tool_agent(Codex(config.effort), config)
