"""An agent: it submits the policy that it finds, once, on all the train episodes that there are."""

from threading import Event

from evopolicygym.agents.kit.judge_client import JudgeClient, turn
from evopolicygym.core.agent import Agent, AgentConfig, JudgeEndpoint, Turn, Workspace


class Walker:
    """Submits once."""

    max_turns = 1

    def play(self, desk: Workspace, door: JudgeEndpoint, stop: Event) -> Turn:  # noqa: ARG002 - it changes nothing
        """Spend the budget."""
        return turn(_spend, door, stop)


def make(config: AgentConfig) -> Agent:  # noqa: ARG001 - it has no options
    """Return the agent."""
    return Walker()


def _spend(referee: JudgeClient) -> str:
    info = referee.info()
    referee.submit(info.cases(0, info.episode_budget), "walker")
    return "submitted once"
