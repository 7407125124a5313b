"""The agent ``random``: it spends the whole budget on the starter policy, which plays uniformly at random."""

from threading import Event

from evopolicygym.agents.base import About, refuse_choices
from evopolicygym.agents.kit.judge_client import JudgeClient, turn
from evopolicygym.core.agent import Agent, AgentConfig, JudgeEndpoint, Turn, Workspace
from evopolicygym.core.text import counted

ABOUT = About("changes nothing: plays the starter policy, which is random")
EPISODES_PER_SUBMISSION = 16


class RandomAgent:
    """Submits the policy unchanged, on the train cases in order."""

    max_turns = 1

    def play(self, workspace: Workspace, endpoint: JudgeEndpoint, stop: Event) -> Turn:  # noqa: ARG002 - the policy stays
        """Spend the budget."""
        return turn(_spend, endpoint, stop)


def make(config: AgentConfig) -> Agent:
    """Return the agent."""
    refuse_choices(config)
    return RandomAgent()


def _spend(judge: JudgeClient) -> str:
    info = judge.info()
    remaining, submissions = info.episode_budget, 0
    while remaining:
        count = info.portion(EPISODES_PER_SUBMISSION, remaining)
        indices = info.cases(info.episode_budget - remaining, count)
        remaining = judge.submit(indices, f"random-{submissions}").remaining_budget
        submissions += 1
    return f"{counted(submissions, 'submission')} of the unchanged policy"
