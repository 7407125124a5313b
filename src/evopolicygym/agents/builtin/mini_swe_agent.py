"""Mini-SWE-agent as an agent."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from evopolicygym.agents.kit.tool import Event, Tool, ToolEvent, ToolTask, make_tool_agent
from evopolicygym.core.agent import Agent, AgentConfig
from evopolicygym.model_proxy.formats import ApiFormat
from evopolicygym.model_proxy.upstream import ModelAddress
from evopolicygym.sandbox.program.view import python_of

TELL_VERSION = "from importlib.metadata import version; print(version('mini-swe-agent'))"


class MiniSweAgent(Tool):
    """mini-SWE-agent. It prints no events: conversations can't continue, and it reports no usage."""

    program = "mini"
    install = "pipx install mini-swe-agent==2.4.6 --pip-args 'litellm<1.100'"
    wire = ApiFormat.CHAT
    url, key = "https://api.openai.com/v1", "OPENAI_API_KEY"
    efforts = ()

    def arguments(self, task: ToolTask) -> Sequence[str]:
        """Return the program's arguments."""
        plain = ("-y", "--exit-immediately", "-l", "0", "-c", "mini.yaml", "-c", "model.cost_tracking=ignore_errors")
        effort = ("-c", f"model.model_kwargs.extra_body.reasoning_effort={self.effort}") if self.effort else ()
        return ("-m", f"openai/{task.model}", "-t", task.prompt, *plain, *effort)

    def version_command(self, program: Path) -> Sequence[str]:
        """Return a command for the Python of the tool's script: the tool has no option that tells its version."""
        python = python_of((str(program),))
        return (python, "-c", TELL_VERSION) if python else super().version_command(program)

    def environment(self, model: str, endpoint: ModelAddress) -> Mapping[str, str]:  # noqa: ARG002 - an argument
        """Return the tool's environment variables."""
        quiet = {"MSWEA_CONFIGURED": "true", "MSWEA_SILENT_STARTUP": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "true"}
        return {**endpoint.environment, "OPENAI_API_BASE": endpoint.address, **quiet}

    def parse_event(self, event: Event) -> ToolEvent:  # noqa: ARG002 - it prints no events
        """Return nothing."""
        return ToolEvent()


ABOUT = MiniSweAgent.about("mini-SWE-agent")


def make(config: AgentConfig) -> Agent:
    """Return the agent; raise ``UsageError`` if the tool isn't installed or an option is invalid."""
    return make_tool_agent(MiniSweAgent(config.effort), config)
