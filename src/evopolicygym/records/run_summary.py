"""A run's summary, derived from its journal and from nothing else.

How it is spelled in ``run.json`` is described in ``run_document.py``.
"""

from collections.abc import Iterator, Mapping, Sequence

from evopolicygym.core.cases import Split
from evopolicygym.core.event import (
    AgentEnded,
    AgentMetered,
    AgentStarted,
    RunOpened,
    RunResumed,
    RunStopped,
    SubmissionPublished,
)
from evopolicygym.core.rollout import Episode
from evopolicygym.core.run import RunState
from evopolicygym.core.run_summary import (
    AgentTurn,
    BudgetSummary,
    Fingerprint,
    IsolationSummary,
    ProgramChange,
    RunOutcome,
    RunSummary,
    Stop,
    SubmissionSummary,
    Timing,
    UsageSummary,
)
from evopolicygym.core.score import estimate, mean
from evopolicygym.records.reader import RunRecord


def summary_of(record: RunRecord) -> RunSummary:
    """Return the summary of a run's present state."""
    state, opened = record.state, record.state.opened
    return RunSummary(
        protocol_version=opened.protocol_version,
        run_id=opened.run_id,
        stage=state.stage,
        task=opened.task,
        agent=opened.agent,
        seed=opened.seed,
        split=opened.split,
        experiment=opened.experiment,
        revealed=opened.revealed,
        commitment=opened.commitment,
        fingerprint=Fingerprint(opened.versions, opened.spec_sha256, opened.simulator_code),
        isolation=IsolationSummary(opened.isolation, opened.findings, _agent_findings(record)),
        usage=_usage(record),
        price=opened.price,
        tool_usage=_tool_usage(record),
        timing=_timing(record),
        budget=BudgetSummary(state.budget, state.spent, len(state.submissions)),
        submissions=tuple(_submission(state, index) for index in range(len(state.submissions))),
        outcome=_outcome(state),
        program_changes=tuple(ProgramChange(one.time, one.program_sha256) for one in state.program_changes),
    )


def held_out_returns(state: RunState) -> tuple[float, ...]:
    """Return the selected checkpoint's held-out returns, in the split's order; empty where there are none yet."""
    return state.rollout(Split.HELD_OUT, state.selected.checkpoint).returns if state.selected else ()


def success_rate(state: RunState) -> float | None:
    """Return the share of held-out episodes in which the policy succeeded; None where there is no success."""
    return mean(one.succeeded for one in _held_out(state))


def _agent_findings(record: RunRecord) -> Mapping[str, str] | None:
    found = [event.findings for event in record.events if isinstance(event, AgentEnded) and event.findings]
    return found[-1] if found else None


def _usage(record: RunRecord) -> UsageSummary | None:
    """Return what went through the model's proxy; its cost is None where no price is known."""
    summed = _summed([event.usage for event in _metered(record) if event.usage])
    return UsageSummary({**summed, "cost": summed.get("cost")}) if summed else None


def _tool_usage(record: RunRecord) -> UsageSummary | None:
    summed = _summed([event.tool_usage for event in record.events if isinstance(event, AgentEnded)])
    return UsageSummary(summed) if summed else None


def _metered(record: RunRecord) -> Iterator[AgentMetered | AgentEnded]:
    """Yield what holds a turn's usage: its end, or the last note of it where it was interrupted."""
    note: AgentMetered | None = None
    for event in record.events:
        if isinstance(event, AgentMetered):
            note = event
        elif isinstance(event, AgentEnded):
            note = None
            yield event
        elif isinstance(event, AgentStarted) and note:
            yield note
            note = None
    if note:
        yield note


def _summed(turns: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(name for turn in turns for name in turn)
    return {name: sum(turn.get(name, 0) for turn in turns) for name in names}


def _timing(record: RunRecord) -> Timing:
    opened: RunOpened = record.state.opened
    ended, events = record.state.finished, record.events
    return Timing(
        opened_at=opened.time,
        finished_at=ended.time if ended else None,
        resumed_at=tuple(event.time for event in events if isinstance(event, RunResumed)),
        stops=tuple(Stop(event.time, event.reason, event.message) for event in events if isinstance(event, RunStopped)),
        agent_turns=tuple(
            AgentTurn(start.time, end.time, end.seconds, end.end, end.message) for start, end in _turns(record)
        ),
        train_seconds=sum(event.wall_time_s for event in events if isinstance(event, SubmissionPublished)),
    )


def _turns(record: RunRecord) -> list[tuple[AgentStarted, AgentEnded]]:
    starts = {event.turn: event for event in record.events if isinstance(event, AgentStarted)}
    ends = [event for event in record.events if isinstance(event, AgentEnded)]
    return [(starts[event.turn], event) for event in ends if event.turn in starts]


def _submission(state: RunState, index: int) -> SubmissionSummary:
    submission = state.submissions[index]
    validation = state.rollout(Split.VALIDATION, submission.charged.checkpoint)
    return SubmissionSummary(
        submit_index=index,
        status=submission.status,
        checkpoint=submission.charged.checkpoint,
        n_episodes=len(submission.episodes),
        failed_episodes=submission.failed,
        train_mean=estimate(submission.returns).mean if submission.returns else None,
        validation_mean=None if validation.missing else estimate(validation.returns).mean,
    )


def _outcome(state: RunState) -> RunOutcome:
    held_out, selected, played = state.held_out(), state.selected, _held_out(state)
    return RunOutcome(
        status=state.finished.status if state.finished else None,
        closed=state.closed.reason if state.closed else None,
        selected_submission=selected.submit_index if selected else None,
        validation_mean=selected.validation_mean if selected else None,
        score=held_out.mean if held_out else None,
        standard_error=state.finished.standard_error if state.finished else None,
        held_out_returns=held_out_returns(state) if held_out else None,
        success_rate=success_rate(state),
        held_out_failures=sum(episode.failure is not None for episode in played),
    )


def _held_out(state: RunState) -> list[Episode]:
    """Return what the selected checkpoint has played of the held-out cases."""
    if state.selected is None:
        return []
    return [one for one in state.rollout(Split.HELD_OUT, state.selected.checkpoint).episodes if one is not None]
