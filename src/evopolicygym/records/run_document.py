"""``run.json``: a run's summary as JSON and back. The one place that knows how it is spelled.

Writing is exact: the same journal gives the same bytes. Reading takes any document of this schema's version, those of
older records that lack newer fields too, passes over what it doesn't know, and believes what is said: ``verify`` is
what checks it. How a summary is made of a journal is described in ``run_summary.py``.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from evopolicygym.core import regular_file
from evopolicygym.core.decoding import Undecodable, decoder
from evopolicygym.core.errors import EvoPolicyGymError, RecordError, UsageError
from evopolicygym.core.run import Stage
from evopolicygym.core.run_summary import RunSummary, Timing, UsageSummary
from evopolicygym.core.task import Task
from evopolicygym.core.text import printable, printable_lines
from evopolicygym.records.documents import SCHEMA_VERSION
from evopolicygym.records.jsontext import dumps
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import read_run
from evopolicygym.records.run_summary import success_rate, summary_of

MOST_DOCUMENT = 64 << 20
"""Bytes of a ``run.json`` that are read: a submission takes some 300."""
NEWER = {
    "task": {"policy_packages", "choices"},
    "environment": {"pack"},
    "budget": {"max_submissions"},
    "agent": {"label", "program_sha256"},
}
"""Fields that stand only where there is something in them, as documents of before are without."""
LINES = frozenset(
    {"objective", "reward", "termination", "observation", "action", "degenerate_policy", "meaning", "options"}
)
"""Fields whose texts may have several lines; all others are shown within one."""


def encode(summary: RunSummary) -> dict[str, Any]:
    """Return a summary as the JSON object that stands in ``run.json``."""
    return {
        "schema_version": SCHEMA_VERSION,
        "protocol_version": summary.protocol_version,
        "run_id": summary.run_id,
        "stage": summary.stage.value,
        "task": _task(summary.task),
        "agent": _known(asdict(summary.agent), NEWER["agent"]),
        "seed": summary.seed,
        "split": summary.split.value,
        **({"revealed": True} if summary.revealed else {}),
        "experiment": summary.experiment,
        "commitment": summary.commitment,
        "fingerprint": _fingerprint(summary),
        "isolation": _isolation(summary),
        "usage": _amounts(summary.usage),
        "price": asdict(summary.price) if summary.price else None,
        "tool_usage": _amounts(summary.tool_usage),
        "timing": asdict(summary.timing),
        "budget": asdict(summary.budget),
        "submissions": [asdict(one) for one in summary.submissions],
        "outcome": _outcome(summary),
        **({"program_changes": [asdict(one) for one in summary.program_changes]} if summary.program_changes else {}),
    }


def decode(text: str | bytes) -> RunSummary:
    """Return the summary that the text of a ``run.json`` holds, with nothing in it that can't be printed.

    Raises ``RecordError``, which says where it holds something else.
    """
    try:
        found = json.loads(text)
        if isinstance(found, dict) and found.get("schema_version", SCHEMA_VERSION) != SCHEMA_VERSION:
            raise _other_version(found["schema_version"])
        summary = decoder(RunSummary, allow_unknown=True).value(_fields(_clean(found)))
    except Undecodable as error:
        problem = error.problems[0]
        where = printable(problem.where) or "the document"
        raise RecordError(f"run.json can't be read: {where}: {problem.message}.") from error
    except UsageError as error:
        raise RecordError(f"run.json can't be read: {error}") from error
    except (ValueError, RecursionError) as error:
        raise RecordError(f"run.json is not JSON: {error}.") from error
    _refuse_times(summary.timing)
    return summary


def read_summary(paths: RunPaths) -> RunSummary:
    """Return a run's summary: as it is written, or made of the journal where that knows more.

    Raises ``RecordError`` where neither can be read.
    """
    try:
        written = decode(regular_file.read(paths.document, MOST_DOCUMENT).decode("utf-8", "replace"))
    except FileNotFoundError:
        written = None
    if (written is None or written.stage is not Stage.FINISHED) and regular_file.is_there(paths.journal):
        return _counted(decode(document_text(paths)), paths)
    if written is None:
        raise RecordError("There is neither a run.json nor a journal.jsonl that can be read.")
    return _counted(written, paths)


def written_stage(paths: RunPaths) -> object:
    """Return the stage that ``run.json`` names, whatever else is in it; None where it can't be read."""
    try:
        return json.loads(regular_file.read(paths.document, MOST_DOCUMENT)).get("stage")
    except (OSError, RecordError, ValueError, AttributeError, RecursionError):
        return None


def is_current(paths: RunPaths) -> bool:
    """Return whether ``run.json`` is what the journal makes of it; raise ``RecordError`` where that can't be read."""
    with suppress(OSError, RecordError):
        return regular_file.read(paths.document, MOST_DOCUMENT) == document_text(paths).encode()
    return False


def run_document(paths: RunPaths) -> dict[str, Any]:
    """Return the document of a run's present state, to be passed on whole."""
    return encode(summary_of(read_run(paths.root)))


def document_text(paths: RunPaths) -> str:
    """Return the document as it stands in ``run.json``."""
    return dumps(run_document(paths), indent=2) + "\n"


def _counted(summary: RunSummary, paths: RunPaths) -> RunSummary:
    """Return a summary whose success rate counts no episode in which the policy failed, as far as the journal shows."""
    if summary.outcome.recorded_success_rate and summary.outcome.held_out_failures:
        with suppress(EvoPolicyGymError, OSError):
            rate = success_rate(read_run(paths.root).state)
            return replace(summary, outcome=replace(summary.outcome, success_rate=rate))
    return summary


def _known(fields: Mapping[str, Any], newer: set[str]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value or name not in newer}


def _task(task: Task) -> dict[str, Any]:
    found = _known(asdict(task), NEWER["task"])
    parts = {name: _known(found[name], NEWER[name]) for name in ("environment", "budget")}
    return {**found, **parts}


def _fingerprint(summary: RunSummary) -> dict[str, Any]:
    found = summary.fingerprint
    code = {"simulator_code": dict(found.simulator_code)} if found.simulator_code else {}
    return {"versions": dict(found.versions), **code, "spec_sha256": found.spec_sha256}


def _isolation(summary: RunSummary) -> dict[str, Any]:
    found = summary.isolation
    agent = {"agent": dict(found.agent)} if found.agent else {}
    return {"level": found.level, "findings": dict(found.findings), **agent}


def _amounts(usage: UsageSummary | None) -> dict[str, float | None] | None:
    return dict(usage.amounts) if usage else None


def _outcome(summary: RunSummary) -> dict[str, Any]:
    found = asdict(summary.outcome)
    found["success_rate"] = found.pop("recorded_success_rate")
    if not found["held_out_failures"]:
        del found["held_out_failures"]
    return found


def _other_version(found: object) -> RecordError:
    shown = printable(str(found))[:60]
    return RecordError(f"run.json has schema version {shown}; this program reads version {SCHEMA_VERSION}.")


def _clean(value: object, *, lines: bool = False) -> Any:  # noqa: ANN401 - any JSON value
    """Return a JSON value without a character that can't be printed, but for the ends of lines where they belong."""
    match value:
        case str():
            return printable_lines(value) if lines else printable(value)
        case list():
            return [_clean(one, lines=lines) for one in value]
        case dict():
            return {printable(name): _clean(one, lines=lines or name in LINES) for name, one in value.items()}
    return value


def _fields(document: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return a document's fields as the summary's, as far as both are spelled differently."""
    if not isinstance(document, dict):
        return document
    fields = {**document}
    for name in ("usage", "tool_usage"):
        fields[name] = {"amounts": fields[name]} if fields.get(name) else None
    if isinstance(agent := fields.get("agent"), dict):
        fields["agent"] = {name: value for name, value in agent.items() if value is not None}
    if isinstance(outcome := fields.get("outcome"), dict):
        fields["outcome"] = {**outcome, "recorded_success_rate": outcome.get("success_rate")}
    return fields


def _refuse_times(timing: Timing) -> None:
    """Refuse times that can't be compared."""
    ends = (timing.finished_at,) if timing.finished_at else ()
    for at in (timing.opened_at, *ends, *timing.resumed_at, *(one.at for one in timing.stops)):
        try:
            known = datetime.fromisoformat(at).tzinfo is not None
        except ValueError:
            known = False
        if not known:
            raise RecordError(
                f"run.json can't be read: timing: expected a time with its offset such as 2026-01-31T12:00:00.000Z, "
                f"got {at[:60]!r}."
            )
