"""Whose failure it is: the one table of causes, and what follows from each.

A process that fails is judged by ``cause_of``, wherever it ran. What a model server's answer means is recognised in
``model_proxy/failures.py``, and that memory, descriptors, threads or storage ran out in ``core/shortage.py`` and
``core/storage.py``: these are the machine's.
"""

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Cause(StrEnum):
    """Whose failure it is."""

    POLICY = "policy"
    """The policy raises, is too slow by its own processor time, or answers with something that is not an action."""
    MACHINE = "machine"
    """A process ends by a signal that was not sent here; memory, descriptors, threads or disk run out; anything before
    a policy's first line."""
    MODEL_SERVER = "model server"
    """The model's server answers with an error, hangs, breaks off, or has no money, room or such model."""
    REQUEST = "request"
    """A request to the model's server that can never succeed, such as a conversation longer than its context."""
    AGENT = "agent"
    """The agent's program ends by itself, with or without an error."""
    ENVIRONMENT = "environment"
    """The simulator fails on a valid action."""


class Outcome(StrEnum):
    """What a failure leads to."""

    EPISODE_FAILS = "the episode fails"
    """It is charged, and the anchor policy plays it to its end."""
    RUN_STOPS = "the run stops"
    """Nothing is scored or charged; the run can be resumed (exit code 4)."""
    RUN_PAUSES = "the run pauses"
    """The turn doesn't count; the run can be resumed (exit code 5)."""
    TURN_IS_OVER = "the turn is over"
    """What was submitted counts."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What follows from a cause."""

    outcome: Outcome
    attempts: int = 1
    """How often it is tried in all before the outcome, uncharged; the model's server is asked again by the client."""


RULES: Mapping[Cause, Rule] = {
    Cause.POLICY: Rule(Outcome.EPISODE_FAILS),
    Cause.MACHINE: Rule(Outcome.RUN_STOPS, attempts=2),
    Cause.MODEL_SERVER: Rule(Outcome.RUN_PAUSES),
    Cause.REQUEST: Rule(Outcome.TURN_IS_OVER),
    Cause.AGENT: Rule(Outcome.TURN_IS_OVER),
    Cause.ENVIRONMENT: Rule(Outcome.RUN_STOPS, attempts=3),
}
"""What follows from each cause. A machine's failure of an agent's program pauses the run (``outcome_of``)."""


class Part(StrEnum):
    """A process that can fail."""

    POLICY = "policy"
    AGENT = "agent"
    SIMULATOR = "simulator"


FROM_OUTSIDE = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})
"""Signals that end a process on somebody's order; the others are faults of the program itself. A policy can't send
these to itself where the filter of system calls is on (``sandbox/seccomp.py``)."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What is known of a process that failed."""

    part: Part
    signal: int = 0
    """The signal that ended it; 0 if it ended by itself or still runs."""
    sent_here: bool = False
    """Whether this program sent the signal."""
    before_first_line: bool = False
    """Whether no line of the policy, or of the agent's program, had run."""

    @classmethod
    def of_code(cls, part: Part, code: int | None, *, sent_here: bool = False) -> "Failure":
        """Return the failure of a process that ended with an exit code, negative for a signal; None if unknown."""
        return cls(part, max(0, -(code or 0)), sent_here)

    @property
    def killed(self) -> str:
        """By which signal it was killed from outside, for a message; empty if by none."""
        if self.signal not in FROM_OUTSIDE or self.sent_here:
            return ""
        memory = ", as the kernel does when memory runs out" if self.signal == signal.SIGKILL else ""
        return f"killed from outside by {signal.Signals(self.signal).name}{memory}"


def cause_of(failure: Failure) -> Cause:
    """Return whose failure it is that a process failed."""
    if failure.killed or failure.before_first_line:
        return Cause.MACHINE
    match failure.part:
        case Part.POLICY:
            return Cause.POLICY
        case Part.AGENT:
            return Cause.AGENT
        case _:
            return Cause.ENVIRONMENT


def outcome_of(failure: Failure) -> Outcome:
    """Return what a process's failure leads to, after the attempts of its rule."""
    cause = cause_of(failure)
    if cause is Cause.MACHINE and failure.part is Part.AGENT:
        return Outcome.RUN_PAUSES
    return RULES[cause].outcome
