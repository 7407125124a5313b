"""Anthropic's Claude Code as an agent."""

from collections.abc import Mapping, Sequence

from evopolicygym.agents.kit.tool import Event, Tool, ToolEvent, ToolTask, make_tool_agent, tokens
from evopolicygym.core.agent import Agent, AgentConfig
from evopolicygym.model_proxy.formats import ApiFormat
from evopolicygym.model_proxy.upstream import ModelAddress

PLAIN = (
    "--output-format",
    "stream-json",
    "--verbose",
    "--dangerously-skip-permissions",  # it runs in our sandbox
    "--disallowedTools",
    "WebSearch,WebFetch",
)
QUIET = {
    "IS_SANDBOX": "1",  # otherwise it refuses to run as root
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
}
MODELS = ("ANTHROPIC_SMALL_FAST_MODEL", "ANTHROPIC_DEFAULT_HAIKU_MODEL", "CLAUDE_CODE_SUBAGENT_MODEL")
"""Models for side tasks: only the run's own model is allowed."""


class ClaudeCode(Tool):
    """Claude Code. Its usage is for one call; its input excludes cached tokens."""

    program = "claude"
    install = "npm install -g @anthropic-ai/claude-code@2.1.330"
    wire = ApiFormat.MESSAGES
    url, key = "https://api.anthropic.com", "ANTHROPIC_API_KEY"
    efforts = ("low", "medium", "high", "xhigh", "max")

    def arguments(self, task: ToolTask) -> Sequence[str]:
        """Return the program's arguments."""
        again = ("--resume", task.conversation) if task.conversation else ()
        effort = ("--effort", self.effort) if self.effort else ()
        return ("-p", task.prompt, "--model", task.model, *effort, *PLAIN, *again)

    def environment(self, model: str, endpoint: ModelAddress) -> Mapping[str, str]:
        """Return the tool's environment variables."""
        return {**endpoint.environment, **QUIET, **dict.fromkeys(MODELS, model)}

    def parse_event(self, event: Event) -> ToolEvent:
        """Return the content of an event."""
        match event["type"]:
            case "system":
                return ToolEvent(conversation=event.get("session_id", ""))
            case "result":
                message = str(event.get("result") or event["subtype"])
                error = message if event["is_error"] else ""
                return ToolEvent(event["session_id"], message, error=error, usage=_usage(event))
            case _:
                return ToolEvent()


def _usage(event: Event) -> dict[str, float]:
    counts = event["usage"]
    reported = tokens(counts, output="output_tokens", cached_input="cache_read_input_tokens")
    whole = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    cost = tokens(event, cost="total_cost_usd")
    return {"input": sum(counts.get(name) or 0 for name in whole), **reported, **cost}


ABOUT = ClaudeCode.about("Anthropic's Claude Code")


def make(config: AgentConfig) -> Agent:
    """Return the agent; raise ``UsageError`` if the tool isn't installed or an option is invalid."""
    return make_tool_agent(ClaudeCode(config.effort), config)
