"""How much of an episode an agent is shown: an experiment's variable."""

from enum import StrEnum


class FeedbackProfile(StrEnum):
    """What a submission leaves for the agent to read."""

    FULL = "full"
    """Summary, trajectories, output, errors, and films where asked for."""
    TRACES = "traces"
    """As ``full``, without films."""
    RETURNS = "returns"
    """Summary, output and errors; no trajectories."""
