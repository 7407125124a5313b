"""How a run ended, in words: its budget, a limit, the agent's own choice, or a crash, and the episodes left unspent."""

import re
from collections.abc import Mapping
from typing import Any

from evopolicygym.core.agent import AgentEnd, used_of
from evopolicygym.core.event import CloseReason, RunStatus
from evopolicygym.core.run_summary import AgentTurn, RunSummary
from evopolicygym.core.text import counted
from evopolicygym.viewer.documents.reading import shown

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


def ending(summary: RunSummary) -> dict[str, Any] | None:
    """Return how a run ended: what ended it (``RunSummary.ended_by``), the episodes left unspent, and both in words.

    None while it goes on.
    """
    closed, budget = summary.outcome.closed, summary.budget
    if closed is None:
        return None
    last = summary.timing.agent_turns[-1] if summary.timing.agent_turns else None
    unspent = budget.episodes - budget.spent
    what, why = _cause(summary, closed, last)
    spent = f"after {budget.spent:,} of {counted(budget.episodes, 'episode')}"
    texts = [what if closed is CloseReason.BUDGET_SPENT else f"{what} {spent}; {unspent:,} unspent"]
    if summary.outcome.status is RunStatus.NO_OK_SUBMIT:
        texts.append("no submission could be scored")
    return {"by": summary.ended_by, "unspent": max(0, unspent), "what": f"{'; '.join(texts)}.", "why": shown(why)}


def _cause(summary: RunSummary, closed: CloseReason, last: AgentTurn | None) -> tuple[str, str]:
    """Return what ended a run, in words, and what the agent or the limit says of it."""
    if closed is CloseReason.BUDGET_SPENT:
        return f"The whole budget of {counted(summary.budget.episodes, 'episode')} was spent", ""
    if closed is CloseReason.ALLOWANCE_SPENT:
        return "A limit ended the run", _limit(summary, last)
    if closed is CloseReason.AGENT_ENDED and last and last.end in FAILED:
        return FAILED[last.end], _last_line(last.message)
    return CLOSED[closed], ""


def _last_line(message: str) -> str:
    """Return the last line of a message, which of an exception names it; records spell line ends out."""
    lines = [line.strip() for line in re.split(r"\n|\\n", message) if line.strip()]
    return lines[-1][:MOST_WHY] if lines else ""


def _limit(summary: RunSummary, last: AgentTurn | None) -> str:
    """Return which limit was reached: as the last turn says, else by what was used."""
    if last and last.end == AgentEnd.ALLOWANCE_SPENT and last.message:
        return last.message
    usage = {name: amount or 0.0 for name, amount in summary.usage.amounts.items()} if summary.usage else {}
    turns = summary.timing.agent_turns
    return summary.agent.allowance.spent(used_of(usage, sum(turn.seconds for turn in turns), len(turns)))
