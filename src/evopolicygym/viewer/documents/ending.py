"""How a run ended, in words: its budget, a limit, the agent's own choice, or a crash, and the episodes left unspent."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from evopolicygym.core.agent import AgentEnd
from evopolicygym.core.event import CloseReason, RunStatus
from evopolicygym.core.run_summary import AgentTurn, RunSummary
from evopolicygym.core.text import counted

FAILED: Mapping[str, str] = {
    AgentEnd.CRASHED: "The agent crashed",
    AgentEnd.HUNG: "The agent hung and was ended",
    AgentEnd.KILLED: "The agent was killed from outside",
    AgentEnd.CONTEXT_EXCEEDED: "The agent's conversation outgrew its model's context",
    AgentEnd.LIMITED: "The model's server limited the agent's requests",
    AgentEnd.UNAUTHORIZED: "The model's server didn't accept the key",
    AgentEnd.UNAVAILABLE: "The model's server failed or didn't answer",
}
"""What a turn's end says of the run that ended with it."""
MOST_WHY = 400
"""Characters of an agent's last words that are shown."""
CLOSED: Mapping[CloseReason, str] = {
    CloseReason.SUBMISSIONS_SPENT: "The agent used all its submissions",
    CloseReason.FINISH_ASKED: "The agent asked to end the run",
    CloseReason.AGENT_ENDED: "The agent ended by itself",
}


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended, in words; ``RunRow.ended_by`` says it for programs."""

    what: str
    """What ended it, and how many episodes were left."""
    why: str
    """What the agent or the limit says of it; may be empty."""


def ending(summary: RunSummary) -> Ending | None:
    """Return how a run ended; None while it goes on."""
    closed, budget = summary.outcome.closed, summary.budget
    if closed is None:
        return None
    last = summary.timing.agent_turns[-1] if summary.timing.agent_turns else None
    what, why = _cause(summary, closed, last)
    spent = f"after {budget.spent:,} of {counted(budget.episodes, 'episode')}"
    unspent = f"{what} {spent}; {budget.episodes - budget.spent:,} unspent"
    texts = [what if closed is CloseReason.BUDGET_SPENT else unspent]
    if summary.outcome.status is RunStatus.NO_OK_SUBMIT:
        texts.append("no submission could be scored")
    return Ending(f"{'; '.join(texts)}.", why)


def _cause(summary: RunSummary, closed: CloseReason, last: AgentTurn | None) -> tuple[str, str]:
    """Return what ended a run, in words, and what the agent or the limit says of it."""
    if closed is CloseReason.BUDGET_SPENT:
        return f"The whole budget of {counted(summary.budget.episodes, 'episode')} was spent", ""
    if closed is CloseReason.ALLOWANCE_SPENT:
        return "A limit ended the run", summary.limit_message
    if closed is CloseReason.AGENT_ENDED and last and last.end in FAILED:
        return FAILED[last.end], _last_line(last.message)
    return CLOSED[closed], ""


def _last_line(message: str) -> str:
    """Return the last line of a message, which of an exception names it; records spell line ends out."""
    lines = [line.strip() for line in re.split(r"\n|\\n", message) if line.strip()]
    return lines[-1][:MOST_WHY] if lines else ""
