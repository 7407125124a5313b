"""An agent's words: the addresses it is given, the desk it works at, and how a turn of it ended."""

from dataclasses import dataclass
from enum import StrEnum


class AgentEnd(StrEnum):
    """How one turn of an agent ended."""

    FINISHED = "finished"
    """It ended by itself."""
    STOPPED = "stopped"
    """It was stopped: the run closed, or its time was up."""
    CRASHED = "crashed"
    """It raised, or its program exited with an error."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the judge answers."""

    base_url: str
    """With the run's token in its path, without a slash at the end."""

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables by which an agent's program finds the judge."""
        return {
            "EVOPOLICYGYM_INFO_URL": f"{self.base_url}/info",
            "EVOPOLICYGYM_TASK_URL": f"{self.base_url}/task",
            "EVOPOLICYGYM_SUBMIT_URL": f"{self.base_url}/submit",
        }


@dataclass(frozen=True, slots=True)
class Turn:
    """How one turn of an agent went."""

    end: AgentEnd
    message: str = ""
    """What a person would want to know of it, in a line; empty where there is nothing to say."""
