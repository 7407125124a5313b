"""The agent that is a function of a Python program; from the command line there is none to call."""

from evopolicygym.agents.base import About
from evopolicygym.agents.kit.session import function_missing
from evopolicygym.core.agent import Agent, AgentConfig

ABOUT = About(
    "a Python function that is given a session; not sandboxed", needs="evopolicygym.run(TASK, agent=FUNCTION)"
)


def make(config: AgentConfig) -> Agent:
    """Raise ``UsageError``: a name alone holds no function."""
    raise function_missing(config)
