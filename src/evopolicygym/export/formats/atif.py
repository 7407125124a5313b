"""Agents' transcripts as ATIF 1.8 (the Agent Trajectory Interchange Format): a JSON file for each run."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

from evopolicygym.analysis.lineage.edit_rows import message_spans
from evopolicygym.analysis.run_tables import RunTables
from evopolicygym.core.run_summary import UsageSummary
from evopolicygym.export.exporters import BaseExporter, WrittenFile
from evopolicygym.records.conversation import ConversationStep, StepSource
from evopolicygym.records.run_document import summary_of
from evopolicygym.records.transcripts import READERS, UNREADABLE, Transcript, transcript_of
from evopolicygym.version import __version__

VERSION = "ATIF-v1.8"
OURS = frozenset({"gepa", "neutral", "openevolve", "rewrite"})
"""Agents whose harness is part of this package; their version is its own."""
SUFFIX = ".trajectory.json"


class Exporter(BaseExporter):
    """Writes a trajectory for each run with a readable transcript."""

    tables: ClassVar[tuple[str, ...]] = ()

    def __init__(self, directory: Path, tables: Sequence[str]) -> None:
        super().__init__(directory, tables)
        self._written: list[WrittenFile] = []

    def add(self, run: RunTables) -> None:
        """Write a run's trajectory, or note why there is none."""
        agent = run.record.state.opened.agent.name
        if agent not in READERS:
            self.notes.append(f"{run.row.run_id} is left out: {UNREADABLE.get(agent, 'its transcript has no reader')}.")
            return
        transcript = transcript_of(run.record)
        if transcript is None or not transcript.steps:
            self.notes.append(f"{run.row.run_id} is left out: its record holds no transcript of {agent}.")
            return
        path = self.directory / f"{run.row.run_id}{SUFFIX}"
        part = path.with_name(f"{path.name}.part")
        part.write_text(json.dumps(trajectory(run, transcript), indent=1, allow_nan=False) + "\n", encoding="utf-8")
        part.rename(path)
        self._written.append(WrittenFile(path.name, path, len(transcript.steps), path.stat().st_size))
        if transcript.unread:
            self.notes.append(
                f"{run.row.run_id}: {transcript.unread} lines of its transcript are not events and are left out."
            )

    def finish(self) -> list[WrittenFile]:
        """Return the files, which are complete already."""
        return self._written

    def abort(self) -> None:
        """Remove incomplete files."""
        for part in self.directory.glob(f"*{SUFFIX}.part"):
            part.unlink()


def trajectory(run: RunTables, transcript: Transcript) -> dict[str, Any]:
    """Return a run's trajectory as JSON; ``extra`` has the run's settings and outcome."""
    opened, usage = run.record.state.opened, summary_of(run.record).usage
    extra = {"label": opened.agent.label or None, "effort": opened.agent.effort or None}
    agent = {
        "name": opened.agent.name,
        "version": transcript.version
        or run.row.agent_version
        or (__version__ if opened.agent.name in OURS else "unknown"),
        "model_name": opened.agent.model or None,
        "extra": _known(extra) or None,
    }
    return _known(
        {
            "schema_version": VERSION,
            "session_id": opened.run_id,
            "trajectory_id": opened.run_id,
            "agent": _known(agent),
            "steps": [_step(number, step, opened.agent.model) for number, step in enumerate(transcript.steps, 1)],
            "final_metrics": _final_metrics(usage, len(transcript.steps)),
            "extra": {"evopolicygym": _outcome(run, transcript)},
        }
    )


def _step(number: int, step: ConversationStep, model: str) -> dict[str, Any]:
    is_agent = step.source is StepSource.AGENT
    calls = [{"tool_call_id": call.id, "function_name": call.name, "arguments": call.arguments} for call in step.calls]
    results = [
        _known(
            {
                "source_call_id": result.call,
                "content": result.text,
                "extra": {"is_error": True} if result.is_error else None,
            }
        )
        for result in step.results
    ]
    fields = {
        "step_id": number,
        "timestamp": _timestamp(step.time),
        "source": step.source.value,
        "model_name": step.model if is_agent and step.model not in {"", model} else None,
        "message": step.message,
        "reasoning_content": step.reasoning or None if is_agent else None,
        "tool_calls": calls or None,
        "observation": {"results": results} if results else None,
        "metrics": _metrics(step.usage) if is_agent else None,
    }
    return _known(fields)


def _timestamp(text: str) -> str | None:
    try:
        return datetime.fromisoformat(text).isoformat()
    except ValueError:
        return None


def _metrics(usage: Mapping[str, float]) -> dict[str, Any] | None:
    return (
        _known(
            {
                "prompt_tokens": _count(usage.get("input")),
                "completion_tokens": _count(usage.get("output")),
                "cached_tokens": _count(usage.get("cached_input")),
            }
        )
        or None
    )


def _final_metrics(usage: UsageSummary | None, steps: int) -> dict[str, Any]:
    """Return the run's usage as counted by the model proxy."""
    if usage is None:
        return {"total_steps": steps}
    return _known(
        {
            "total_prompt_tokens": _count(usage.input_tokens),
            "total_completion_tokens": _count(usage.output_tokens),
            "total_cached_tokens": _count(usage.cached_input_tokens),
            "total_cost_usd": usage.cost,
            "total_steps": steps,
        }
    )


def _outcome(run: RunTables, transcript: Transcript) -> dict[str, Any]:
    row = run.row
    submissions: Iterable[dict[str, Any]] = (
        {
            "submission": item.submission,
            "charged_at": item.charged_at.isoformat(),
            "train_mean": item.train_mean,
            "first_step": first,
            "last_step": last,
        }
        for item, (first, last) in zip(run.submissions, message_spans(run.record, transcript), strict=True)
    )
    return _known(
        {
            "run_id": row.run_id,
            "task": row.task,
            "budget": row.budget,
            "spent": row.spent,
            "status": row.status,
            "score": row.score,
            "score_standard_error": row.score_standard_error,
            "selected_submission": row.selected_submission,
            "submissions": [_known(item) for item in submissions],
        }
    )


def _known(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are neither None nor NaN."""
    return {name: value for name, value in fields.items() if value is not None and value == value}  # noqa: PLR0124 - NaN


def _count(amount: float | None) -> int | None:
    return None if amount is None else int(amount)
