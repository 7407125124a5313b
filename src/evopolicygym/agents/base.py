"""How an agent is named and made. The contract itself is ``core.agent.Agent``.

An agent is one file of this room that defines ``make(config) -> Agent``, an entry point of the group
``evopolicygym.agents``, or ``package.module:function``.
"""

from collections.abc import Collection

from evopolicygym.core.agent import Agent, AgentConfig
from evopolicygym.core.errors import UsageError
from evopolicygym.core.registry import Registry

AGENTS = Registry(
    kind="agent",
    package="evopolicygym.agents.builtin",
    group="evopolicygym.agents",
    attribute="make",
    from_outside="make",
)


def refuse_choices(config: AgentConfig) -> None:
    """Raise ``UsageError`` where a config chooses something for an agent that leaves nothing to choose."""
    words = {"model": config.model, "effort": config.effort}
    given = {**config.options, **{name: word for name, word in words.items() if word}}
    if given:
        raise UsageError(
            f"The agent {config.name!r} asks no model and has no options, and was given {', '.join(given)}. A program "
            f"of yours can be given a model: evopolicygym run TASK --model-url URL -- PROGRAM."
        )


def refuse_effort(config: AgentConfig, known: Collection[str] | None) -> None:
    """Raise ``UsageError`` where a config asks for an effort that an agent has no setting for.

    ``known`` is None for an agent without one, and empty where the model's server decides which words there are.
    """
    if not config.effort or (known is not None and (not known or config.effort in known)):
        return
    can = f"it knows {', '.join(known)}" if known else "it has no setting for that; leave --effort out"
    raise UsageError(f"The agent {config.name!r} can't be given the effort {config.effort!r}: {can}.")


def make(config: AgentConfig) -> Agent:
    """Return the agent that a config names; raise ``UnknownName``, ``MissingExtra`` or ``UsageError``."""
    agent: Agent = AGENTS.load(config.name)(config)
    return agent
