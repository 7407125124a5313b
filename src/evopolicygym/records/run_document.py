"""``run.json``: a run's summary as JSON and back. The one place that knows how it is spelled.

Writing is exact: the same journal gives the same bytes. Reading takes any document of today's schema, passes over what
it doesn't know, and believes what is said: ``verify`` is what checks it.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from typing import Any

from evopolicygym.core import regular_file
from evopolicygym.core.decoding import Undecodable, decoder
from evopolicygym.core.errors import RecordError, UsageError
from evopolicygym.core.event import SCHEMA
from evopolicygym.core.run import Stage
from evopolicygym.core.run_summary import RunSummary, Timing, UsageSummary
from evopolicygym.core.text import printable, printable_lines
from evopolicygym.records.documents import migrate
from evopolicygym.records.jsontext import dumps
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import RunRecord, read_run
from evopolicygym.records.run_summary import summary_of

MOST_DOCUMENT = 64 << 20
"""Bytes of a ``run.json`` that are read: a submission takes some 300."""
LINES = frozenset(
    {"objective", "reward", "termination", "observation", "action", "degenerate_policy", "meaning", "options"}
)
"""Fields whose texts may have several lines; all others are shown within one."""


def encode(summary: RunSummary) -> dict[str, Any]:
    """Return a summary as the JSON object that stands in ``run.json``."""
    usages = {"usage": _amounts(summary.usage), "tool_usage": _amounts(summary.tool_usage)}
    return {"schema_version": SCHEMA, **asdict(summary), **usages}


def decode(text: str | bytes) -> RunSummary:
    """Return the summary that the text of a ``run.json`` holds, with nothing in it that can't be printed.

    Raises ``RecordError``, which says where it holds something else.
    """
    try:
        found = json.loads(text)
        fields = _fields(_clean(migrate(found))) if isinstance(found, dict) else found
        summary = decoder(RunSummary, allow_unknown=True).value(fields)
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
        return decode(document_text(paths))
    if written is None:
        raise RecordError("There is neither a run.json nor a journal.jsonl that can be read.")
    return written


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
    """Return the document of a run's journal as it stands in ``run.json``."""
    return text_of(read_run(paths.root))


def text_of(record: RunRecord) -> str:
    """Return the document of a record as it stands in ``run.json``."""
    return dumps(encode(summary_of(record)), indent=2) + "\n"


def _amounts(usage: UsageSummary | None) -> dict[str, float | None] | None:
    return dict(usage.amounts) if usage else None


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


def _fields(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document's fields as the summary's, as far as both are spelled differently."""
    usages = {name: document.get(name) for name in ("usage", "tool_usage")}
    return {**document, **{name: {"amounts": amounts} if amounts else None for name, amounts in usages.items()}}


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
