"""``run.json``: what a person or a table wants of a run, derived from its journal and from nothing else."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from evopolicygym.core.agent import AgentConfig
from evopolicygym.core.cases import Split
from evopolicygym.core.episode import Episode
from evopolicygym.core.errors import EvoPolicyGymError
from evopolicygym.core.event import (
    AgentEnded,
    AgentMetered,
    AgentStarted,
    RunOpened,
    RunResumed,
    RunStopped,
    SubmissionPublished,
)
from evopolicygym.core.run import RunState
from evopolicygym.core.score import estimate
from evopolicygym.core.task import Task
from evopolicygym.records.documents import SCHEMA_VERSION
from evopolicygym.records.jsontext import dumps
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import RunRecord, read_run

MOST_DOCUMENT = 64 << 20
"""Bytes of a ``run.json`` that are read: a submission takes some 300."""


def run_document(paths: RunPaths) -> dict[str, Any]:
    """Return the document of a run's present state."""
    return document_of(read_run(paths.root))


def document_of(record: RunRecord) -> dict[str, Any]:
    """Return the document of a record that has been read."""
    state, opened = record.state, record.state.opened
    return {
        "schema_version": SCHEMA_VERSION,
        "protocol_version": opened.protocol_version,
        "run_id": opened.run_id,
        "stage": state.stage.value,
        "task": _task(opened.task),
        "agent": _agent(opened.agent),
        "seed": opened.seed,
        "split": opened.split.value,
        "experiment": opened.experiment,
        "commitment": opened.commitment,
        "fingerprint": _fingerprint(opened),
        "isolation": {"level": opened.isolation, "findings": dict(opened.findings), **_agent_isolation(record)},
        "usage": _usage(record),
        "price": asdict(opened.price) if opened.price else None,
        "tool_usage": _summed([event.tool_usage for event in record.events if isinstance(event, AgentEnded)]),
        "timing": _timing(record),
        "budget": {"episodes": state.budget, "spent": state.spent, "submissions": len(state.submissions)},
        "submissions": [_submission(state, index) for index in range(len(state.submissions))],
        "outcome": _outcome(state),
    }


def _fingerprint(opened: RunOpened) -> dict[str, Any]:
    """Return what the numbers depend on; the simulator's code stands only where the journal tells it."""
    code = {"simulator_code": dict(opened.simulator_code)} if opened.simulator_code else {}
    return {"versions": dict(opened.versions), **code, "spec_sha256": opened.spec_sha256}


def _task(task: Task) -> dict[str, Any]:
    """Return what is played; packages of policies stand only where a run names some, as older documents know none."""
    return {name: value for name, value in asdict(task).items() if value or name != "policy_packages"}


def _agent(agent: AgentConfig) -> dict[str, Any]:
    """Return who plays; what records of before labels can't tell stands only where there is something to tell."""
    return {name: value for name, value in asdict(agent).items() if value or name not in {"label", "program_sha256"}}


def _agent_isolation(record: RunRecord) -> dict[str, Any]:
    """Return what kept the agent in, as found at its last turn; nothing where no turn recorded any."""
    found = [dict(e.findings) for e in record.events if isinstance(e, AgentEnded) and e.findings]
    return {"agent": found[-1]} if found else {}


def _usage(record: RunRecord) -> dict[str, float | None] | None:
    """Return what went through the model's door, summed over the agent's turns; None where there was no such door.

    Its cost is None where no price is known, and a lower bound where any usage is ``unknown``.
    """
    summed = _summed([event.usage for event in _metered(record) if event.usage])
    return {**summed, "cost": summed.get("cost")} if summed else None


def _metered(record: RunRecord) -> Iterator[AgentMetered | AgentEnded]:
    """Yield what tells a turn's usage: its end, or the last note of it where it was interrupted."""
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


def _summed(turns: Sequence[Mapping[str, float]]) -> dict[str, float] | None:
    """Return sums by name; None where no turn tells any."""
    names = dict.fromkeys(name for turn in turns for name in turn)
    return {name: sum(turn.get(name, 0) for turn in turns) for name in names} or None


def document_text(paths: RunPaths) -> str:
    """Return the document as it stands in ``run.json``."""
    return dumps(run_document(paths), indent=2) + "\n"


def _timing(record: RunRecord) -> dict[str, Any]:
    opened: RunOpened = record.state.opened
    ended = record.state.finished
    return {
        "opened_at": opened.time,
        "finished_at": ended.time if ended else None,
        "resumed_at": [event.time for event in record.events if isinstance(event, RunResumed)],
        "stops": [
            {"at": event.time, "reason": event.reason.value, "message": event.message}
            for event in record.events
            if isinstance(event, RunStopped)
        ],
        "agent_turns": [
            {
                "started_at": start.time,
                "ended_at": end.time,
                "seconds": end.seconds,
                "end": end.end,
                "message": end.message,
            }
            for start, end in _turns(record)
        ],
        "train_seconds": sum(e.wall_time_s for e in record.events if isinstance(e, SubmissionPublished)),
    }


def _turns(record: RunRecord) -> list[tuple[AgentStarted, AgentEnded]]:
    starts = {event.turn: event for event in record.events if isinstance(event, AgentStarted)}
    ends = [event for event in record.events if isinstance(event, AgentEnded)]
    return [(starts[event.turn], event) for event in ends if event.turn in starts]


def _submission(state: RunState, index: int) -> dict[str, Any]:
    submission = state.submissions[index]
    validation = state.rollout(Split.VALIDATION, submission.charged.checkpoint)
    return {
        "submit_index": index,
        "status": submission.status.value,
        "checkpoint": submission.charged.checkpoint,
        "n_episodes": len(submission.episodes),
        "failed_episodes": submission.failed,
        "train_mean": estimate(submission.returns).mean if submission.returns else None,
        "validation_mean": None if validation.missing else estimate(validation.returns).mean,
    }


def _outcome(state: RunState) -> dict[str, Any]:
    held_out = state.held_out()
    selected = state.selected
    return {
        "status": state.finished.status.value if state.finished else None,
        "closed": state.closed.reason.value if state.closed else None,
        "selected_submission": selected.submit_index if selected else None,
        "validation_mean": selected.validation_mean if selected else None,
        "score": held_out.mean if held_out else None,
        "standard_error": state.finished.standard_error if state.finished else None,
        "held_out_returns": list(held_out_returns(state)) if held_out else None,
        "success_rate": _share([one.success for one in _held_out(state)]),
        **_held_out_failures(state),
    }


def _held_out_failures(state: RunState) -> dict[str, int]:
    """Return in how many held-out episodes the policy failed; nothing where in none, as in older documents."""
    failed = sum(episode.failure is not None for episode in _held_out(state))
    return {"held_out_failures": failed} if failed else {}


def held_out_returns(state: RunState) -> tuple[float, ...]:
    """Return the selected checkpoint's held-out returns, in the split's order; empty where there are none yet."""
    return state.rollout(Split.HELD_OUT, state.selected.checkpoint).returns if state.selected else ()


def success_rate(state: RunState) -> float | None:
    """Return the share of held-out episodes in which the policy succeeded; None where there is no success.

    ``run.json`` holds it as it was recorded, which in older records counts episodes that random actions finished.
    """
    return _share([one.succeeded for one in _held_out(state)])


def counted_success_rate(paths: RunPaths, told: float | None, held_out_failures: int) -> float | None:
    """Return the same of a run by what its ``run.json`` says; by its journal where a held-out episode failed.

    Where the journal can't be read, it is what the document says.
    """
    if told and held_out_failures:
        with suppress(EvoPolicyGymError, OSError):
            return success_rate(read_run(paths.root).state)
    return told


def _held_out(state: RunState) -> list[Episode]:
    """Return what the selected checkpoint has played of the held-out cases."""
    if state.selected is None:
        return []
    return [one for one in state.rollout(Split.HELD_OUT, state.selected.checkpoint).episodes if one is not None]


def _share(told: Sequence[bool | None]) -> float | None:
    known = [one for one in told if one is not None]
    return sum(known) / len(known) if known else None
