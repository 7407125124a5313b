"""The agent outside: a person, an editor's agent, a harness or a container that calls the judge of a served run."""

from evopolicygym.agents.base import About
from evopolicygym.core.agent import Agent, AgentConfig
from evopolicygym.core.errors import UsageError

ABOUT = About("whoever has the judge's address; not sandboxed", needs="evopolicygym serve TASK")


def make(config: AgentConfig) -> Agent:
    """Raise ``UsageError``: such runs are served, not started by the agent's name."""
    raise UsageError(
        f"The agent {config.entry} calls the judge from outside. Serve a run for it: evopolicygym serve TASK; or "
        f"continue a stopped run: evopolicygym resume RUN."
    )
