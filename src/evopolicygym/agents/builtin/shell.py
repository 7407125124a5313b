"""The agent that is you: a shell in the run's workplace, in the terminal that the run was started in."""

from evopolicygym.agents.base import About, refuse_effort
from evopolicygym.agents.builtin.command import CommandAgent
from evopolicygym.agents.kit.model_options import limits_of
from evopolicygym.agents.kit.program import ProgramEnd
from evopolicygym.core.agent import Agent, AgentConfig, AgentEnd, Turn, Workspace

ABOUT = About("a shell in the sandbox, in your terminal", needs="a terminal")
LEFT = "the shell was left before the run was over; evopolicygym enter RUN opens another one"
COMMAND = ("bash",)


class ShellAgent(CommandAgent):
    """A person at a shell, who may leave it and come back."""

    def _turn(self, ended: ProgramEnd, workspace: Workspace) -> Turn:
        """Return a turn that pauses where the shell was left, with whatever exit code, while the run went on."""
        if ended.code is None or ended.limit or ended.over:
            return super()._turn(ended, workspace)
        return Turn(AgentEnd.UNAVAILABLE, LEFT, findings=ended.findings)


def make(config: AgentConfig) -> Agent:
    """Return the agent that is a shell, under the limits that the config's options name."""
    refuse_effort(config, None)
    return ShellAgent(COMMAND, limits_of(config), interactive=True)
