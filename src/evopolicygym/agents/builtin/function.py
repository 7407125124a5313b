"""The agent that is a Python function. It can only be passed from Python, so its name alone creates nothing."""

from evopolicygym.agents.base import About
from evopolicygym.agents.kit.session import FUNCTION_AGENT
from evopolicygym.core.agent import Agent, AgentConfig
from evopolicygym.core.errors import UsageError

ABOUT = About(
    "a Python function that is given a session; not sandboxed", needs="evopolicygym.run(TASK, agent=FUNCTION)"
)


def make(config: AgentConfig) -> Agent:
    """Raise ``UsageError``."""
    name = config.label or FUNCTION_AGENT
    raise UsageError(
        f"The agent {name} is a Python function. Pass it from Python: evopolicygym.run(TASK, agent={name}), or to "
        f"continue a stopped run: evopolicygym.resume(RUN, agent={name})."
    )
