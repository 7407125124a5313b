"""The contract of a command-line tool that is an agent: what one file of this room tells of it.

How a tool is started, watched and resumed is described in ``cli_agent.py``.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from evopolicygym.agents.kit.about import About, Model
from evopolicygym.model_proxy.formats import ApiFormat
from evopolicygym.model_proxy.upstream import ModelAddress

Event = Mapping[str, Any]
"""A line of JSON that a tool prints."""


@dataclass(frozen=True, slots=True)
class ToolTask:
    """What a tool is started for."""

    model: str
    prompt: str
    conversation: str = ""
    """The one that is to go on, by the tool's own name for it; empty for a new one."""


@dataclass(frozen=True, slots=True)
class ToolEvent:
    """What one event of a tool says; empty where it says nothing of the kind."""

    conversation: str = ""
    message: str = ""
    """What the model said last."""
    error: str = ""
    """Why the tool can't go on."""
    usage: Mapping[str, float] = field(default_factory=dict)
    """Tokens by the names of the model proxy (``input`` with ``cached_input``, ``output`` with ``reasoning``)."""
    goes_on: bool = False
    """Whether the message goes on from the one of the event before."""


class Tool(ABC):
    """One command-line tool."""

    program: ClassVar[str]
    """As it is called on the PATH."""
    install: ClassVar[str]
    """The command that installs the version that this was tested with."""
    wire: ClassVar[ApiFormat]
    url: ClassVar[str]
    """Where its model is by default."""
    key: ClassVar[str]
    """The environment variable that holds the key there."""
    usage_adds_up: ClassVar[bool] = False
    """Whether the usage of all events of a call is to be summed; else the last one is the call's."""
    usage_lasts: ClassVar[bool] = False
    """Whether usage counts from the conversation's beginning; else from the call's."""
    efforts: ClassVar[tuple[str, ...] | None] = None
    """Words that set its model's reasoning effort; none where it leaves that to the model's server,
    None where it can't be set."""

    @classmethod
    def about(cls, summary: str) -> About:
        """Return what a person is shown of the agent that calls it."""
        return About(
            summary,
            Model.NEEDED,
            program=cls.program,
            install=cls.install,
            extra="agents",
            imports=("httpx2",),
            key=cls.key,
        )

    def __init__(self, effort: str = "") -> None:
        self.effort = effort
        """Empty: as the tool has it by itself."""

    @abstractmethod
    def arguments(self, call: ToolTask) -> Sequence[str]:
        """Return the program's arguments."""

    @abstractmethod
    def hear(self, event: Event) -> ToolEvent:
        """Return what an event says. It may be anything: what is not as expected raises as it likes."""

    def files(self, model: str, endpoint: ModelAddress) -> Mapping[str, str]:  # noqa: ARG002 - none, by default
        """Return what is laid in the tool's home before each call, by path."""
        return {}

    def environment(self, model: str, endpoint: ModelAddress) -> Mapping[str, str]:  # noqa: ARG002 - as above
        """Return the tool's environment variables."""
        return endpoint.environment


def tokens(counts: Mapping[str, Any], **names: str) -> dict[str, float]:
    """Return the numbers of a tool's usage under the names that the model proxy has for them."""
    found = {name: counts.get(theirs) for name, theirs in names.items()}
    return {name: count for name, count in found.items() if isinstance(count, int | float)}
