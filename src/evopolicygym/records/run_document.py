"""``run.json``: a run's summary, derived from its event log, written as JSON and read back.

Writing is exact: the same event log gives the same bytes. Reading takes any document of today's schema, ignores unknown
fields, and trusts the rest: ``verify`` checks it.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from typing import Any

from evopolicygym.core import regular_file
from evopolicygym.core.cases import Split
from evopolicygym.core.decoding import Undecodable, decoder
from evopolicygym.core.errors import RecordError, UsageError
from evopolicygym.core.event import (
    SCHEMA,
    AgentEnded,
    AgentMetered,
    AgentStarted,
    Event,
    RunResumed,
    RunStopped,
    SubmissionCharged,
    SubmissionPublished,
)
from evopolicygym.core.rollout import Episode
from evopolicygym.core.run import RunState, Stage
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
from evopolicygym.core.score import mean
from evopolicygym.core.strict_json import dumps
from evopolicygym.core.text import printable, printable_lines
from evopolicygym.records.journal import check_schema
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import RunRecord, read_run

MAX_BYTES = 64 << 20
"""Bytes of a ``run.json``: a submission takes about 300."""
MULTILINE = frozenset(
    {"objective", "reward", "termination", "observation", "action", "degenerate_policy", "meaning", "options"}
)
"""Fields whose texts may have several lines; all others are shown within one line."""
LATER_FIELDS = frozenset(
    {
        *("evopolicygym_version", "agent_version", "model_details", "nonce", "readable"),
        *("repeats", "cases_differ"),
    }
)
"""Fields that are left out where they are empty, as in documents from before there were any."""
_TEXTUAL = frozenset({str, list, dict})
"""Types of JSON values that are texts or hold some; the others, most of a document, need no second look."""


def encode(summary: RunSummary) -> dict[str, Any]:
    """Return a summary as the JSON object in ``run.json``."""
    usages = {"usage": _amounts(summary.usage), "tool_usage": _amounts(summary.tool_usage)}
    document = {"schema_version": SCHEMA, **asdict(summary), **usages}
    if summary.task.environment.world is None:  # as runs from before there were worlds have it
        del document["task"]["environment"]["world"]
    document = {name: value for name, value in document.items() if value or value is False or name not in LATER_FIELDS}
    return document if summary.task.environment.is_known else _without_unknown(document)


def _without_unknown(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document of a run of the paper's release, without what is unknown of its task."""
    task, outcome = document["task"], document["outcome"]
    known = {
        "environment": {"name": task["environment"]["name"]},
        "budget": {"episodes": task["budget"]["episodes"]},
        "held_out_cases": task["held_out_cases"] or None,
    }
    return {
        **document,
        "task": known,
        "outcome": {**outcome, "held_out_failures": None},
        **dict.fromkeys(("split", "experiment", "commitment", "fingerprint", "isolation", "revealed")),
    }


def decode(text: str | bytes) -> RunSummary:
    """Return the summary in the text of a ``run.json``, with unprintable characters spelled out.

    Raises ``RecordError``, which names the invalid field.
    """
    try:
        document = json.loads(text)
        fields = _fields(_clean(check_schema(document))) if isinstance(document, dict) else document
        summary = decoder(RunSummary, allow_unknown=True).value(fields)
    except Undecodable as error:
        problem = error.problems[0]
        where = printable(problem.where) or "the document"
        raise RecordError(f"run.json can't be read: {where}: {problem.message}.") from error
    except UsageError as error:
        raise RecordError(f"run.json can't be read: {error}") from error
    except (ValueError, RecursionError) as error:
        raise RecordError(f"run.json is not JSON: {error}.") from error
    _check_times(summary.timing)
    return summary


def read_summary(paths: RunPaths) -> RunSummary:
    """Return a run's summary: from ``run.json`` if the run is finished or has no event log, else from its event log.

    Raises ``RecordError`` if neither can be read.
    """
    try:
        summary = decode(regular_file.read(paths.document, MAX_BYTES).decode("utf-8", "replace"))
    except FileNotFoundError:
        summary = None
    if (summary is None or summary.stage is not Stage.FINISHED) and regular_file.is_there(paths.journal):
        return decode(document_text(paths))
    if summary is None:
        raise RecordError("There is neither a run.json nor a journal.jsonl that can be read.")
    return summary


def read_stage(paths: RunPaths) -> object:
    """Return the stage that ``run.json`` names, whatever its other fields are; None if it can't be read."""
    try:
        return json.loads(regular_file.read(paths.document, MAX_BYTES)).get("stage")
    except (OSError, RecordError, ValueError, AttributeError, RecursionError):
        return None


def is_current(paths: RunPaths) -> bool:
    """Return whether ``run.json`` agrees with the event log; raise ``RecordError`` if the latter can't be read."""
    with suppress(OSError, RecordError):
        return regular_file.read(paths.document, MAX_BYTES) == document_text(paths).encode()
    return False


def run_document(paths: RunPaths) -> dict[str, Any]:
    """Return the document of a run's present state."""
    return encode(summary_of(read_run(paths.root)))


def document_text(paths: RunPaths) -> str:
    """Return the text of ``run.json`` for a run's present state."""
    return record_text(read_run(paths.root))


def record_text(record: RunRecord) -> str:
    """Return the text of ``run.json`` for a record."""
    return dumps(encode(summary_of(record)), indent=2) + "\n"


def _amounts(usage: UsageSummary | None) -> dict[str, float | None] | None:
    return dict(usage.amounts) if usage else None


def _clean(value: Any, *, multiline: bool = False) -> Any:  # noqa: ANN401 - any JSON value
    """Return a JSON value with unprintable characters spelled out, except newlines in fields of several lines."""
    kind = type(value)
    if kind is str:
        return value if value.isprintable() else printable_lines(value) if multiline else printable(value)
    if kind is list:
        return [_clean(item, multiline=multiline) if type(item) in _TEXTUAL else item for item in value]
    if kind is dict:
        return {
            printable(name): _clean(item, multiline=multiline or name in MULTILINE) if type(item) in _TEXTUAL else item
            for name, item in value.items()
        }
    return value


def _fields(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document with the fields of ``RunSummary``: those of usages are nested there."""
    usages = {name: document.get(name) for name in ("usage", "tool_usage")}
    return {**document, **{name: {"amounts": amounts} if amounts else None for name, amounts in usages.items()}}


def _check_times(timing: Timing) -> None:
    """Raise ``RecordError`` for a time that can't be compared with others."""
    ends = (timing.finished_at,) if timing.finished_at else ()
    for at in (timing.opened_at, *ends, *timing.resumed_at, *(stop.at for stop in timing.stops)):
        try:
            has_offset = datetime.fromisoformat(at).tzinfo is not None
        except ValueError:
            has_offset = False
        if not has_offset:
            raise RecordError(
                f"run.json can't be read: timing: expected a time with its offset such as 2026-01-31T12:00:00.000Z, "
                f"got {at[:60]!r}."
            )


def summary_of(record: RunRecord) -> RunSummary:
    """Return the summary of a run's present state."""
    state, opened = record.state, record.state.opened
    return RunSummary(
        protocol_version=opened.protocol_version,
        run_id=opened.run_id,
        stage=state.stage,
        task=opened.task,
        agent=opened.agent,
        seed=opened.seed if opened.task.environment.is_known else None,
        split=opened.split,
        experiment=opened.experiment,
        revealed=opened.revealed,
        commitment=opened.commitment,
        fingerprint=Fingerprint(opened.versions, opened.spec_sha256, opened.simulator_code),
        isolation=IsolationSummary(opened.isolation, opened.findings, _agent_findings(record)),
        usage=usage_of(record),
        price=opened.price,
        tool_usage=_tool_usage(record),
        timing=_timing(record),
        budget=BudgetSummary(state.budget, state.spent, len(state.submissions)),
        submissions=tuple(_submission(state, index) for index in range(len(state.submissions))),
        outcome=_outcome(state),
        evopolicygym_version=opened.evopolicygym_version,
        agent_version=opened.agent_version,
        model_details=opened.model_details,
        nonce=opened.nonce,
        readable=opened.readable,
        repeats=opened.repeats,
        cases_differ=opened.cases_differ,
        program_changes=tuple(ProgramChange(change.time, change.program_sha256) for change in state.program_changes),
    )


def held_out_returns(state: RunState) -> tuple[float, ...]:
    """Return the selected checkpoint's held-out returns, in the split's order; empty if there are none yet."""
    return state.rollout(Split.HELD_OUT, state.selected.checkpoint).returns if state.selected else ()


def success_rate(state: RunState) -> float | None:
    """Return the share of held-out episodes in which the policy succeeded; None if the task defines no success."""
    return mean(episode.succeeded for episode in _held_out(state))


def _agent_findings(record: RunRecord) -> Mapping[str, str] | None:
    findings = [event.findings for event in record.events if isinstance(event, AgentEnded) and event.findings]
    return findings[-1] if findings else None


def usage_of(record: RunRecord) -> UsageSummary | None:
    """Return the usage that the model proxy measured; its cost is None if no price is known."""
    total = _sum_usage([event.usage for event in _usage_events(record.events) if event.usage])
    return UsageSummary({**total, "cost": total.get("cost")}) if total else None


def usage_before_submissions(record: RunRecord) -> list[UsageSummary | None]:
    """Return what the model proxy measured before each submission, since the one before; None without a proxy."""
    usage = usage_of(record)
    if usage is None:
        return [None] * len(record.state.submissions)
    events: list[Event] = []
    summaries, before = list[UsageSummary | None](), dict.fromkeys(usage.amounts, 0.0)
    for event in record.events:
        if isinstance(event, AgentStarted | AgentMetered | AgentEnded):
            events.append(event)
        elif isinstance(event, SubmissionCharged):
            total = before | _sum_usage([event.usage for event in _usage_events(events) if event.usage])
            known = {name: total[name] - before[name] for name, amount in usage.amounts.items() if amount is not None}
            summaries.append(UsageSummary({"cost": None, **known}))
            before = total
    return summaries


def _tool_usage(record: RunRecord) -> UsageSummary | None:
    total = _sum_usage([event.tool_usage for event in record.events if isinstance(event, AgentEnded)])
    return UsageSummary(total) if total else None


def _usage_events(events: Iterable[Event]) -> Iterator[AgentMetered | AgentEnded]:
    """Yield the event that holds each turn's usage: its end, or its last measurement if it was interrupted."""
    latest: AgentMetered | None = None
    for event in events:
        if isinstance(event, AgentMetered):
            latest = event
        elif isinstance(event, AgentEnded):
            latest = None
            yield event
        elif isinstance(event, AgentStarted) and latest:
            yield latest
            latest = None
    if latest:
        yield latest


def _sum_usage(turns: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(name for turn in turns for name in turn)
    return {name: sum(turn.get(name, 0) for turn in turns) for name in names}


def _timing(record: RunRecord) -> Timing:
    finished, events = record.state.finished, record.events
    return Timing(
        opened_at=record.state.opened.time,
        finished_at=finished.time if finished else None,
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
    validation = state.validation(submission.charged.checkpoint)
    return SubmissionSummary(
        submit_index=index,
        status=submission.status,
        checkpoint=submission.charged.checkpoint,
        n_episodes=len(submission.episodes),
        failed_episodes=submission.failed,
        train_mean=submission.train_mean,
        validation_mean=validation.mean if validation else None,
    )


def _outcome(state: RunState) -> RunOutcome:
    held_out, selected = state.held_out(), state.selected
    return RunOutcome(
        status=state.finished.status if state.finished else None,
        closed=state.closed.reason if state.closed else None,
        selected_submission=selected.submit_index if selected else None,
        validation_mean=selected.validation_mean if selected else None,
        score=held_out.mean if held_out else None,
        standard_error=state.finished.standard_error if state.finished else None,
        held_out_returns=held_out_returns(state) if held_out else None,
        success_rate=success_rate(state),
        held_out_failures=sum(episode.failure is not None for episode in _held_out(state)),
    )


def _held_out(state: RunState) -> list[Episode]:
    """Return the held-out episodes that the selected checkpoint has played."""
    if state.selected is None:
        return []
    episodes = state.rollout(Split.HELD_OUT, state.selected.checkpoint).episodes
    return [episode for episode in episodes if episode is not None]
