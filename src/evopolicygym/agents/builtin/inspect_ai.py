"""The agent that Inspect AI drives: a solver of Inspect's asks its model, and has commands run in a run's workplace."""

from importlib.util import find_spec

from evopolicygym.agents.base import About
from evopolicygym.core.agent import Agent, AgentConfig
from evopolicygym.core.errors import MissingExtra, UsageError

ABOUT = About(
    "a solver of Inspect AI's, with any model of Inspect's",
    extra="inspect",
    imports=("inspect_ai",),
    needs="inspect eval evopolicygym/core16",
)


def make(config: AgentConfig) -> Agent:
    """Raise ``UsageError``: Inspect drives it, nobody else; ``MissingExtra`` where it isn't here."""
    if find_spec("inspect_ai") is None:
        raise MissingExtra(f"The agent {config.entry}", "inspect", "inspect-ai")
    raise UsageError(
        f"The agent {config.entry} is driven by Inspect AI: inspect eval evopolicygym/core16 begins its runs, and "
        f"inspect eval-retry LOG resumes those that stopped."
    )
