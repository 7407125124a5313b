"""The agent that asks the judge from outside of a run: a person, an editor's agent, a harness, a container."""

from evopolicygym.agents.base import About
from evopolicygym.agents.kit.outside_agent import not_served
from evopolicygym.core.agent import Agent, AgentConfig

ABOUT = About("whoever has the judge's address; not sandboxed", needs="evopolicygym serve TASK")


def make(config: AgentConfig) -> Agent:
    """Raise ``UsageError``: a name alone serves nothing."""
    raise not_served(config)
