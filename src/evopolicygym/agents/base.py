"""How an agent is named and made. The contract itself is ``core.agent.Agent``.

An agent is one file of this room that defines ``make(config) -> Agent``, an entry point of the group
``evopolicygym.agents``, or ``package.module:function``.
"""

from evopolicygym.core.agent import Agent, AgentConfig
from evopolicygym.core.errors import UsageError
from evopolicygym.core.registry import Registry

AGENTS = Registry(
    kind="agent",
    package="evopolicygym.agents",
    group="evopolicygym.agents",
    attribute="make",
    not_names=frozenset(
        {"base", "cli_agent", "model_door", "neutral_harness", "program", "referee", "scripted_model", "tool"}
    ),
)


def refuse_choices(config: AgentConfig) -> None:
    """Raise ``UsageError`` where a config chooses something for an agent that leaves nothing to choose."""
    given = {**config.options, **({"model": config.model} if config.model else {})}
    if given:
        raise UsageError(
            f"The agent {config.name!r} asks no model and has no options, and was given {', '.join(given)}. A program "
            f"of yours can be given a model: evopolicygym run TASK --model-url URL -- PROGRAM."
        )


def make(config: AgentConfig) -> Agent:
    """Return the agent that a config names; raise ``UnknownName``, ``MissingExtra`` or ``UsageError``."""
    agent: Agent = AGENTS.load(config.name)(config)
    return agent
