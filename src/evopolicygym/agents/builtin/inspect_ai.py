"""The agent ``inspect_ai``: a solver of Inspect AI calls its model and runs commands in the agent's sandbox."""

from importlib.util import find_spec

from evopolicygym.agents.base import About
from evopolicygym.core.agent import Agent, AgentConfig
from evopolicygym.core.errors import MissingExtra, UsageError

ABOUT = About(
    "a solver of Inspect AI, with any of its models",
    extra="inspect",
    imports=("inspect_ai",),
    needs="inspect eval evopolicygym/core16",
)


def make(config: AgentConfig) -> Agent:
    """Raise ``UsageError``, since only Inspect AI starts it, or ``MissingExtra`` if that isn't installed."""
    if find_spec("inspect_ai") is None:
        raise MissingExtra(f"The agent {config.entry}", "inspect", "inspect-ai")
    raise UsageError(
        f"The agent {config.entry} is started by Inspect AI: inspect eval evopolicygym/core16; stopped runs are "
        f"resumed by: inspect eval-retry LOG."
    )
