"""An agent that is a Python function: it is given a session, and the run goes on until it returns.

It is not kept in: the function runs in this process, and can read whatever its user can.
"""

import inspect
from collections.abc import Callable
from threading import Event

from evopolicygym.agents.kit.judge_client import JudgeClient, turn
from evopolicygym.agents.kit.session import Session
from evopolicygym.core.agent import AgentConfig, JudgeEndpoint, Turn, Workspace
from evopolicygym.core.errors import UsageError

NAME = "function"
"""What such agents are recorded as; their label is the function's name."""
AgentFunction = Callable[[Session], object]


class FunctionAgent:
    """Calls a function once."""

    max_turns = 1

    def __init__(self, function: AgentFunction) -> None:
        self.function = function
        self.error: Exception | None = None
        """What the function raised."""

    def play(self, workspace: Workspace, endpoint: JudgeEndpoint, stop: Event) -> Turn:
        """Call the function; what it returns is recorded as what it had to say, where that is a text."""

        def call(judge: JudgeClient) -> str:
            try:
                said = self.function(Session(workspace, judge))
            except Exception as error:
                self.error = error
                raise
            return said if isinstance(said, str) else ""

        return turn(call, endpoint, stop)


def function_name(function: AgentFunction) -> str:
    """Return what a function goes by in tables; raise ``UsageError`` where it takes no session."""
    try:
        inspect.signature(function).bind(None)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"Invalid agent {getattr(function, '__name__', function)!r}: it must take one argument: def agent(session)"
        ) from error
    return getattr(function, "__name__", type(function).__name__)


def refuse_command_line(config: AgentConfig) -> UsageError:
    """Return what is said where such an agent is named and no function is at hand."""
    name = config.label or NAME
    return UsageError(
        f"The agent {name} is a Python function, which only Python can give: evopolicygym.run(TASK, agent={name}), or "
        f"evopolicygym.resume(RUN, agent={name}) for a run that stopped."
    )
