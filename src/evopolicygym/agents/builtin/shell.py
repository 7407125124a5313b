"""The agent ``shell``: you, at a shell in the agent's sandbox, in the terminal where the run was started."""

from evopolicygym.agents.base import About, refuse_effort
from evopolicygym.agents.builtin.command import CommandAgent
from evopolicygym.agents.kit.model_options import limits_of
from evopolicygym.agents.kit.program import ProgramEnd
from evopolicygym.core.agent import Agent, AgentConfig, AgentEnd, Turn, Workspace

ABOUT = About("a shell in the sandbox, in your terminal", needs="a terminal")
LEFT = "you left the shell before the run was over; evopolicygym enter RUN opens another one"
COMMAND = ("bash",)


class ShellAgent(CommandAgent):
    """A person at a shell, who may leave it and come back."""

    def _turn(self, ended: ProgramEnd, workspace: Workspace) -> Turn:
        """Return a turn that pauses the run if the user left the shell, whatever its exit code."""
        if ended.code is None or ended.limit or ended.stop_reason:
            return super()._turn(ended, workspace)
        return Turn(AgentEnd.UNAVAILABLE, LEFT, findings=ended.findings)


def make(config: AgentConfig) -> Agent:
    """Return the agent, with the limits in the config's options."""
    refuse_effort(config, None)
    return ShellAgent(COMMAND, limits_of(config), interactive=True)
